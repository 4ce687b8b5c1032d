"""Time, timers, tasks and connections."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from penstock.world.tls import Tls

T = TypeVar("T")


class Timer(Protocol):
    """A pending call that can be called off."""

    def cancel(self) -> None: ...


class Server(Protocol):
    """Something that accepts connections."""

    @property
    def port(self) -> int:
        """The port it listens on; the system's choice where 0 was asked for."""
        ...

    def close(self) -> None:
        """Accept no more. Connections that were made stay."""
        ...


class Loop(Protocol):
    """The event loop and the clocks: everything that has to do with time and the network."""

    @property
    def scratch(self) -> memoryview:
        """Where a connection may have written what it receives, until the next one does: they are read in turn."""
        ...

    def time(self) -> float:
        """Monotonic seconds, for intervals."""
        ...

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch, for timestamps."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_from_thread(self, callback: Callable[..., object], *args: Any) -> object:
        """The same as `call_soon`, from any thread."""
        ...

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call when `delay_s` are over, by `time`: a little later, never sooner."""
        ...

    def create_future(self) -> asyncio.Future[Any]: ...

    def create_task(
        self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None
    ) -> asyncio.Task[T]: ...

    async def sleep(self, delay_s: float) -> None: ...

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Server: ...

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: Tls | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """A connection, inside TLS if `tls` says how; TlsError where that cannot be agreed on."""
        ...
