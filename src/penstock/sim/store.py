"""A simulated client of the metadata store: a session with a `StoreServer`, over a connection that can break.

As with ZooKeeper: pings keep the session alive; a broken connection suspends it and fires all watches; the client
reconnects until the server confirms the session, or answers that it has expired.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.cluster.store_session import StoreSession
from penstock.sim.store_link import StoreLink
from penstock.world.loop import Loop, Timer
from penstock.world.store import Operation, SessionExpiredError, SessionState, StoreNode

if TYPE_CHECKING:
    from penstock.sim.store_server import Ring, StoreServer

RETRY_S = 0.2

# Per session timeout: a missing answer is noticed at the next ping, which leaves a third of the timeout to reconnect.
PINGS_PER_TIMEOUT = 3
SILENCE_MAX = 1 / 2


class SimStore:
    """A `Store`. Opened by `StoreServer.open`."""

    def __init__(self, server: "StoreServer", loop: Loop, *, timeout_s: float) -> None:
        self._server = server
        self._loop = loop
        self._timeout_s = timeout_s
        self._session = StoreSession(loop)
        self._link: StoreLink | None = None
        self._is_cut = False
        self._heard_at = 0.0
        self._timer: Timer | None = None
        self._request_count = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._watch_count = 0
        self._watches: dict[int, Callable[[], None]] = {}
        self.number = 0  # of the session; 0 before it is accepted

    async def begin(self) -> None:
        accepted = self._loop.create_future()
        self._pending[0] = accepted
        self._connect()
        await accepted

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode:
        node = await self._ask(partial(self._server.read_node, path), watch)
        assert isinstance(node, StoreNode)
        return node

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        names = await self._ask(partial(self._server.read_children, path), watch)
        assert isinstance(names, list)
        return names

    async def multi(self, operations: Sequence[Operation]) -> None:
        await self._request(partial(self._server.change, list(operations)))

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session.on_change(callback)

    async def close(self) -> None:
        """End the session, which deletes its ephemeral nodes; if the server cannot be reached, the session expires."""
        if self._session.state is SessionState.CONNECTED:
            goodbye = asyncio.ensure_future(self._request(self._server.close_session))
            await asyncio.wait([goodbye])
            goodbye.exception()  # ignored: the session ends in any case
        self._end("the metadata store is closed")

    # Faults.

    def cut(self, *, silently: bool) -> None:
        self._is_cut = True
        if self._link is not None:
            self._link.break_off()
            if not silently:
                self._loop.call_soon(self._lose, self._link)

    def mend(self) -> None:
        self._is_cut = False

    # Called by the server.

    def accepted(self, link: StoreLink, number: int) -> None:
        self.number = number
        self._heard_at = self._loop.time()
        self._session.connected()
        waiting = self._pending.pop(0, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
        self._schedule(self._timeout_s / PINGS_PER_TIMEOUT, self._ping, link)

    def expired(self) -> None:
        self._end("the session with the metadata store expired")

    def hear(self) -> None:
        self._heard_at = self._loop.time()

    # Requests.

    async def _ask(
        self, read: "Callable[[Ring | None, int], object]", watch: Callable[[], None] | None
    ) -> object:
        """Read, and set the watch; it does not fire before the read is answered."""
        self._session.check()
        assert self._link is not None
        if watch is None:
            return await self._request(partial(read, None))
        self._watch_count += 1
        number = self._watch_count
        self._watches[number] = watch
        try:
            return await self._request(partial(read, self._link.ringing(self._ring, number)))
        except BaseException:
            self._watches.pop(number, None)
            raise

    async def _request(self, request: Callable[[int], object]) -> object:
        self._session.check()
        assert self._link is not None
        self._request_count += 1
        number = self._request_count
        answered = self._pending[number] = self._loop.create_future()
        reply = partial(self._answered, number)
        self._link.to_server.send(self._server.answer, self.number, self._link, reply, request)
        return await answered

    def _answered(self, number: int, outcome: object) -> None:
        self.hear()
        if isinstance(outcome, SessionExpiredError):
            self.expired()
            return
        answered = self._pending.pop(number)
        if answered.done():  # the caller was cancelled
            return
        if isinstance(outcome, Exception):
            answered.set_exception(outcome)
        else:
            answered.set_result(outcome)

    def _ring(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None:
            watch()

    # The connection to the server.

    def _connect(self) -> None:
        """Connect with the session's number, and retry until the server accepts the session or has expired it."""
        if not self._is_cut:
            self._link = self._server.new_link(self._loop)
            self._link.to_server.send(self._server.greet, self, self._link, self.number, self._timeout_s)
        self._schedule(RETRY_S + self._timeout_s / PINGS_PER_TIMEOUT, self._reconnect)

    def _reconnect(self) -> None:
        if self._link is not None:
            self._link.break_off()
        self._connect()

    def _ping(self, link: StoreLink) -> None:
        if self._loop.time() - self._heard_at >= self._timeout_s * SILENCE_MAX:
            self._lose(link)
            return
        link.to_server.send(self._server.ping, self, link, self.number)
        self._schedule(self._timeout_s / PINGS_PER_TIMEOUT, self._ping, link)

    def _lose(self, link: StoreLink) -> None:
        """The connection broke: fail all pending requests, fire all watches, and reconnect."""
        if link is not self._link:
            return
        link.break_off()
        self._link = None
        self._session.suspended()
        self._give_up()
        self._schedule(RETRY_S, self._connect)

    def _end(self, why: str) -> None:
        if self._link is not None:
            self._link.break_off()
            self._link = None
        if self._timer is not None:
            self._timer.cancel()
        self._session.end(why)
        self._give_up()

    def _give_up(self) -> None:
        pending, self._pending = self._pending, {}
        for answered in pending.values():
            if not answered.done():
                answered.set_exception(self._session.broken())
        watches, self._watches = self._watches, {}
        for watch in watches.values():
            self._loop.call_soon(watch)

    def _schedule(self, delay_s: float, function: Callable[..., None], *arguments: Any) -> None:
        """Replace the timer: either the next ping or the next attempt to connect is scheduled."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, function, *arguments)
