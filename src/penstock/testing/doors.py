"""The network of an embedded broker: the real one, with a door between each client and the broker that faults can hold.

Without a fault a door costs a connection nothing but its making.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from penstock.base.buffers import Buffer
from penstock.testing.faults import Faults
from penstock.world.real_loop import RealLoop, RealServer


class FaultyLoop(RealLoop):
    """The running loop, with doors in its servers. Made inside it, once."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults
        self._servers: list[RealServer] = []

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> RealServer:
        def make() -> Door:
            return Door(cast(asyncio.Protocol, factory()), self._faults, self._loop)

        server = await super().listen(make, host, port)
        self._servers.append(server)
        return server

    def close_servers(self) -> None:
        for server in self._servers:
            server.close()


class Door(asyncio.Protocol):
    """Stands between a connection's transport and the broker's protocol."""

    def __init__(self, protocol: asyncio.Protocol, faults: Faults, loop: asyncio.AbstractEventLoop) -> None:
        self._protocol = protocol
        self._faults = faults
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        # What a client sends goes straight to the broker.
        self.data_received = protocol.data_received  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._faults.came(self)
        held = HeldTransport(self._transport, self._faults, self._loop)
        self._protocol.connection_made(cast(asyncio.Transport, held))
        if self._faults.refuse_connections:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._faults.went(self)
        self._protocol.connection_lost(exc)

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()


class HeldTransport:
    """A transport whose writes wait for as long as the faults say, in their order."""

    def __init__(self, transport: asyncio.Transport, faults: Faults, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._faults = faults
        self._loop = loop
        self._held: deque[tuple[float, bytes]] = deque()  # when due, in order
        self._closes = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: Buffer) -> None:
        if self._faults.answer_delay_s <= 0 and not self._held:
            self._transport.write(data)
            return
        due_s = self._loop.time() + self._faults.answer_delay_s
        if self._held:
            due_s = max(due_s, self._held[-1][0])
        else:
            self._loop.call_at(due_s, self._release)
        self._held.append((due_s, bytes(data)))

    def writelines(self, data: Iterable[Buffer]) -> None:
        if self._faults.answer_delay_s <= 0 and not self._held:
            self._transport.writelines(data)
        else:
            self.write(b"".join(data))

    def close(self) -> None:
        self._closes = True
        if not self._held:
            self._transport.close()

    def _release(self) -> None:
        # One at a time: a loop's clock may be a little behind the timer that it runs.
        _, data = self._held.popleft()
        if not self._transport.is_closing():
            self._transport.write(data)
        if self._held:
            self._loop.call_at(self._held[0][0], self._release)
        elif self._closes:
            self._transport.close()
