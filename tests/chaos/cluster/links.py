"""TCP links between processes that can be cut silently: nothing passes, and neither side sees an error.

That is what a network does when a cable is pulled. Bytes under way stay under way, and arrive when the link is mended.
One link leads to one process; whose connection it carries is found by asking the system which process has the other
end, so that a cut has two sides.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, cast

import psutil

from peers.ports import free_ports
from tests.cluster.cuttable_link import Far

Sides = frozenset[str]


class Links:
    """All links of a cluster, in a thread of their own. Names stand for processes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._servers: dict[str, asyncio.Server] = {}
        self._links: dict[str, tuple[int, int]] = {}  # by whom they lead to: own port, its port
        self._pids: dict[str, Callable[[], int | None]] = {}
        self._pipes: set[_Pipe] = set()
        self._severed: set[Sides] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        for name in self._links:
            self.listen(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._servers):
            self.refuse(name)
        self._run(self._abort_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, name: str, *, port: int) -> int:
        """The port of a link to the process `name`, which listens on `port`."""
        (own,) = free_ports(1)
        self._links[name] = (own, port)
        return own

    def know(self, name: str, pid: Callable[[], int | None]) -> None:
        """Which process `name` is right now."""
        self._pids[name] = pid

    def listen(self, name: str) -> None:
        """The process lives: connections to it are taken."""
        if name not in self._servers:
            port, target = self._links[name]
            self._servers[name] = self._run(
                self._loop.create_server(lambda: _Pipe(self, name, target), "127.0.0.1", port)
            )

    def refuse(self, name: str) -> None:
        """The process is dead: its port is closed, as it would be without the link."""
        server = self._servers.pop(name, None)
        if server is not None:
            self._loop.call_soon_threadsafe(server.close)

    def cut(self, one: str, other: str) -> None:
        self._run(self._change(frozenset((one, other)), is_cut=True))

    def mend(self) -> None:
        """All of them."""
        for sides in list(self._severed):
            self._run(self._change(sides, is_cut=False))

    def whose(self, port: int) -> str:
        """The process that has this port as its own end of a connection; empty if it is none of ours."""
        for name, find in self._pids.items():
            pid = find()
            if pid is None:
                continue
            with contextlib.suppress(psutil.Error):
                for each in psutil.Process(pid).net_connections("tcp4"):
                    if each.laddr and each.laddr.port == port and each.raddr:
                        return name
        return ""

    def is_cut(self, sides: Sides) -> bool:
        return sides in self._severed

    def opened(self, pipe: "_Pipe") -> None:
        self._pipes.add(pipe)

    def closed(self, pipe: "_Pipe") -> None:
        self._pipes.discard(pipe)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _change(self, sides: Sides, *, is_cut: bool) -> None:
        (self._severed.add if is_cut else self._severed.discard)(sides)
        for pipe in list(self._pipes):
            if pipe.sides == sides:
                pipe.flow(not is_cut)

    async def _abort_all(self) -> None:
        for pipe in list(self._pipes):
            pipe.abort()


class _Pipe(asyncio.Protocol):
    """One connection: this is the side of who connected, `_Far` that of who listens."""

    def __init__(self, links: Links, target: str, port: int) -> None:
        self.sides: Sides = frozenset()
        self._links = links
        self._target = target
        self._port = port
        self._flowing = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self.near: asyncio.Transport | None = None
        self.far: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.near = cast(asyncio.Transport, transport)
        self.near.pause_reading()
        self._links.opened(self)
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        assert self.near is not None
        port = self.near.get_extra_info("peername")[1]
        source = await asyncio.to_thread(self._links.whose, port)
        self.sides = frozenset((source, self._target))
        if not self._links.is_cut(self.sides):
            self._flowing.set()
        await self._flowing.wait()
        try:
            loop = asyncio.get_running_loop()
            self.far, _ = await loop.create_connection(lambda: Far(self), "127.0.0.1", self._port)
        except OSError:
            self.abort()
            return
        self.flow(self._flowing.is_set())

    def flow(self, is_flowing: bool) -> None:
        """Let bytes pass in both directions, or none."""
        (self._flowing.set if is_flowing else self._flowing.clear)()
        if self.near is None or self.far is None:
            return
        for transport in (self.near, self.far):
            if not transport.is_closing():
                (transport.resume_reading if is_flowing else transport.pause_reading)()

    def data_received(self, data: bytes) -> None:
        assert self.far is not None
        self.far.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.abort()

    def abort(self) -> None:
        self._links.closed(self)
        if self._connecting is not None:
            self._connecting.cancel()
        for transport in (self.near, self.far):
            if transport is not None:
                transport.abort()
