"""Time, timers, tasks and connections."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from penstock.world.tls import Tls

T = TypeVar("T")


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None: ...


class Server(Protocol):
    """A listening socket."""

    @property
    def port(self) -> int:
        """The port it listens on; chosen by the system if 0 was requested."""
        ...

    def close(self) -> None:
        """Stop accepting connections. Existing ones stay open."""
        ...


class Loop(Protocol):
    """The event loop, the clocks and the network."""

    @property
    def scratch(self) -> memoryview:
        """A receive buffer shared by all connections: its content is valid until the next one receives data."""
        ...

    def time(self) -> float:
        """Monotonic seconds, for intervals."""
        ...

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch, for timestamps."""
        ...

    def now_ns(self) -> int:
        """The same in nanoseconds; a builtin in production, for what every produce request asks."""
        ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_from_thread(self, callback: Callable[..., object], *args: Any) -> object:
        """The same as `call_soon`, from any thread."""
        ...

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call after `delay_s`, measured by `time`: slightly later, never sooner."""
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
        """Connect, with TLS if `tls` is given; TlsError if the TLS handshake fails for good."""
        ...
