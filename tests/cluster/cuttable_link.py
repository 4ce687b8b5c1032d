"""A TCP link to a server that a test can cut and mend."""

import asyncio
from typing import Protocol, cast


class CuttableLink:
    """Listens on a port of its own and passes on what arrives; cut, it drops all and refuses all."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._pipes: list[_Pipe] = []
        self._cut = False
        self._server: asyncio.Server | None = None
        self.address = ""

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        self._cut = True
        pipes, self._pipes = self._pipes, []
        for pipe in pipes:
            pipe.abort()

    def fall_silent(self) -> None:
        """Pass on nothing more of the open connections, without closing them. New ones work."""
        for pipe in self._pipes:
            pipe.fall_silent()

    def mend(self) -> None:
        self._cut = False

    def _accept(self) -> "_Pipe":
        pipe = _Pipe(self._target, refusing=self._cut)
        self._pipes.append(pipe)
        return pipe


class _Pipe(asyncio.Protocol):
    """The client's side; `_Far` is the server's."""

    def __init__(self, target: tuple[str, int], *, refusing: bool) -> None:
        self._target = target
        self._refusing = refusing
        self._early: list[bytes] = []
        self._connecting: asyncio.Task[None] | None = None
        self.near: asyncio.Transport | None = None
        self.far: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.near = cast(asyncio.Transport, transport)  # uvloop's are no subclass of it
        if self._refusing:
            self.near.abort()
        else:
            self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        try:
            far, _ = await asyncio.get_running_loop().create_connection(lambda: Far(self), *self._target)
        except OSError:
            self.abort()
            return
        self.far = far
        far.writelines(self._early)

    def data_received(self, data: bytes) -> None:
        if self.far is None:
            self._early.append(data)
        else:
            self.far.write(data)

    def fall_silent(self) -> None:
        for transport in (self.near, self.far):
            if transport is not None:
                transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.abort()

    def abort(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        for transport in (self.near, self.far):
            if transport is not None:
                transport.abort()


class NearSide(Protocol):
    """The side of a pipe that a client connected to."""

    near: asyncio.Transport | None

    def abort(self) -> None: ...


class Far(asyncio.Protocol):
    """The other side: what comes from the server goes to the client."""

    def __init__(self, pipe: NearSide) -> None:
        self._pipe = pipe

    def data_received(self, data: bytes) -> None:
        assert self._pipe.near is not None
        self._pipe.near.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._pipe.abort()
