"""What can go wrong with an embedded broker while it runs, in real time: for clients that have threads of their own.

    broker.faults.answer_delay_s = 2.0         # every answer comes that much later
    broker.faults.drop_connections()           # all connections are reset; clients may come again
    broker.faults.refuse_connections = True    # new ones are reset as soon as they are made
    broker.faults.disk_full = True             # nothing more can be written
    broker.faults.clear()                      # all is well again

For asyncio code there is more, and faster, in `penstock.testing.simulated`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

_TURNS_TO_COME = 3  # of the loop, from accepting a connection to telling its protocol


class Droppable(Protocol):
    """A connection, as the faults see it."""

    def abort(self) -> None: ...


class Faults:
    """The faults of one broker. May be set from any thread; they outlive a kill and a restart."""

    def __init__(self) -> None:
        self.answer_delay_s: float = 0.0
        self.refuse_connections: bool = False
        self.disk_full: bool = False
        self._connections: dict[Droppable, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def clear(self) -> None:
        """Nothing goes wrong any more. What is delayed already still comes when it is due."""
        self.answer_delay_s, self.refuse_connections, self.disk_full = 0.0, False, False

    def drop_connections(self) -> None:
        """Reset every connection that there is; returns when that is done."""
        self._call_on_loop(self.abort_all)

    # For the broker's own loop.

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """The broker runs on this loop now."""
        self._loop = loop
        self._connections = {}

    def detach(self) -> None:
        """No broker runs."""
        self._loop = None

    def came(self, connection: Droppable) -> None:
        self._connections[connection] = None

    def went(self, connection: Droppable) -> None:
        self._connections.pop(connection, None)

    def abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def settle(self) -> None:
        """No server listens any more: reset what was accepted at the last moment too, and see all of it gone."""
        for _ in range(_TURNS_TO_COME):
            await asyncio.sleep(0)
            self.abort_all()
        while self._connections:
            await asyncio.sleep(0)

    def _call_on_loop(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            return
        if _is_running(loop):
            function()
            return
        done: Future[None] = Future()

        def call() -> None:
            function()
            done.set_result(None)

        loop.call_soon_threadsafe(call)
        done.result()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the caller runs on the loop, and so must not wait for it."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
