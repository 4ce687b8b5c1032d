"""The production event loop: uvloop if it is installed, else asyncio's own.

Both set TCP_NODELAY on every connection, and SO_REUSEADDR on a server's socket, by themselves.
"""

import asyncio
import math
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.world.loop import Timer
from penstock.world.tls import Tls, TlsCutError, TlsError, explain

T = TypeVar("T")

# Connections that the kernel queues until they are accepted; it caps the number at its own limit.
BACKLOG = 1024
SCRATCH_BYTES = 64 << 10

_MONOTONIC_COARSE = 6  # Linux's number of a clock for which Python has no name


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a program's main coroutine on uvloop if it is installed, else on asyncio's loop."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main())


class RealServer:
    """A listening socket, or several if a host name has several addresses."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.port: int = server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.close()


class RealLoop:
    """The running event loop; created once, inside it."""

    def __init__(self, *, backlog: int = BACKLOG) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._backlog = backlog
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._early_ms_max = 0 if isinstance(loop, asyncio.BaseEventLoop) else _uvloop_early_ms_max()
        # Not uvloop's clock, which is updated once per iteration: slices within a callback are measured with this one.
        self.time: Callable[[], float] = time.monotonic
        self.now_ns: Callable[[], int] = time.time_ns
        # Called for every request: bound here to save a second call.
        self.create_future: Callable[[], asyncio.Future[Any]] = loop.create_future

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        return self._loop.call_soon(callback, *args)

    def call_from_thread(self, callback: Callable[..., object], *args: Any) -> object:
        return self._loop.call_soon_threadsafe(callback, *args)

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self._loop.call_later(self._in_full(delay_s), callback, *args)

    def create_task(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        return self._loop.create_task(coroutine, name=name)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(self._in_full(delay_s))

    def _in_full(self, delay_s: float) -> float:
        """The delay to request from the loop so that its timer does not fire before `delay_s`."""
        if delay_s <= 0 or not self._early_ms_max:
            return delay_s
        return (math.ceil(delay_s * 1000 - 1e-6) + self._early_ms_max) / 1000

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> RealServer:
        return RealServer(await self._loop.create_server(factory, host, port, backlog=self._backlog))

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: Tls | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        if tls is None:
            return await self._loop.create_connection(factory, host, port)
        return await self._connect_inside(tls, factory, host, port)

    async def _connect_inside(
        self, tls: Tls, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        from penstock.world.real_tls import client_context  # most programs never need it

        context = client_context(tls)
        try:
            return await self._loop.create_connection(factory, host, port, ssl=context)
        except ConnectionRefusedError:
            raise
        except (OSError, EOFError) as error:
            why = explain(error, host)
            if why is not None:
                raise TlsError(why) from error
            if isinstance(error, ssl.SSLError | ConnectionError | EOFError):
                raise TlsCutError(
                    "the connection was closed during the TLS handshake; does that port speak TLS?"
                ) from error
            raise


def _uvloop_early_ms_max() -> int:
    """By how much uvloop's timers may fire early: they count whole milliseconds from a clock that is truncated to one,
    and libuv may use a coarse clock that is another millisecond behind."""
    try:
        return 2 if time.clock_getres(_MONOTONIC_COARSE) <= 0.001 else 1
    except OSError:
        return 1


def check_can_listen(host: str, port: int) -> None:
    """Raise the OSError that `RealLoop.listen` would raise for that address; nothing stays bound."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
            probe.listen(1)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
