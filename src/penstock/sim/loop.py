"""The loop as one process of the simulation sees it: its own clock, its own address in the network.

Dead with its process: code that still runs then (a `finally` when the simulation is put away) reaches nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from penstock.sim.event_loop import VirtualEventLoop
from penstock.sim.network import SimServer
from penstock.sim.process import SimProcess
from penstock.world.loop import Timer
from penstock.world.tls import Tls, TlsError

T = TypeVar("T")


class SimLoop:
    """A `world.Loop` for one process. Its connections are handed what they receive, and use no scratch."""

    scratch = memoryview(b"")

    def __init__(self, loop: VirtualEventLoop, process: SimProcess) -> None:
        self._loop = loop
        self.process = process

    def time(self) -> float:
        return self.process.clock.time()

    def now_ms(self) -> int:
        return self.process.clock.now_ms()

    def now_ns(self) -> int:
        return self.process.clock.now_ms() * 1_000_000

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        return self._loop.kernel.call_soon(self.process, self.process.context.copy(), callback, *args)

    call_from_thread = call_soon

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        when = self.process.clock.time() + delay_s
        return self._loop.call_at(when, callback, *args, context=self.process.context.copy())

    def create_future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def create_task(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        return cast(
            asyncio.Task[T],
            self._loop.create_task(coroutine, name=name, context=self.process.context.copy()),
        )

    async def sleep(self, delay_s: float) -> None:
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        # As asyncio does it, with less on the way: of all that happens in a simulation most is sleep.
        future = self._loop.create_future()
        timer = self.call_later(delay_s, _wake, future)
        try:
            await future
        finally:
            timer.cancel()

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> SimServer:
        return self._loop.network.listen(self.process, host, port, factory)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: Tls | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        if tls is not None:
            raise TlsError("the simulated network does not speak TLS; connect without it")
        return await self._loop.create_connection(factory, host, port)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
