"""The metadata store of a cluster: an Apache ZooKeeper ensemble, reached through kazoo.

kazoo talks to the ensemble on threads of its own. All its callbacks (answers, watches, session events) enter the loop
in one place (`_OnTheLoop`) and in the order in which they arrived, so that a watch fires before the answer to a later
request.

After an expiry kazoo would continue with a new session. This store does not: with the session its ephemeral nodes and
watches are gone, so an expired store refuses all calls, and its user opens another one (`cluster/renewable_store.py`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kazoo import exceptions as refusals
from kazoo.client import KazooClient, TransactionRequest
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState

from penstock.cluster.store_session import StoreSession
from penstock.world.loop import Loop
from penstock.world.store import (
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    SessionExpiredError,
    SessionState,
    Set,
    StoreError,
    StoreNode,
)
from penstock.world.work import Work

log = logging.getLogger("penstock.zookeeper")

SESSION_TIMEOUT_MS = 18_000
CONNECT_TIMEOUT_MS = 18_000

# Clocks synchronised by NTP differ by far less.
CLOCK_TOLERANCE_MS = 5_000

# How long `close` waits for the ensemble to close the session; otherwise the session times out later.
_GOODBYE_S = 2.0
# An ensemble that lost a server elects a leader within a second: do not wait longer than that between attempts.
_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}

_ERRORS: tuple[tuple[type[Exception], type[StoreError]], ...] = (
    (refusals.NoNodeError, NoNodeError),
    (refusals.NodeExistsError, NodeExistsError),
    (refusals.BadVersionError, BadVersionError),
    (refusals.NotEmptyError, NotEmptyError),
    (refusals.SessionExpiredError, SessionExpiredError),
    (refusals.ConnectionClosedError, SessionExpiredError),
    (refusals.ConnectionLoss, ConnectionLossError),
)
# The errors in the answer to a failed `multi` for those operations that did not cause the failure.
_INNOCENT = (refusals.RolledBackError, refusals.RuntimeInconsistency)


class ZooKeeperStore:
    """A `Store` in a ZooKeeper ensemble. Opened with `connect`; everything runs on the loop."""

    def __init__(self, client: KazooClient, *, loop: Loop, work: Work, root: str) -> None:
        self._client = client
        self._root = root
        self._loop = loop
        self._work = work
        self._session = StoreSession(loop)
        # A request is sent under this lock: either before the end of the session is known, and then it fails with
        # the session, or it sees that the session is over. Without the lock kazoo would send it in its next session.
        self._ending = client.handler.lock_object()
        self._ended = False
        self._unanswered: dict[asyncio.Future[Any], None] = {}
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        addresses: str,
        *,
        loop: Loop,
        work: Work,
        root: str = "",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    ) -> "ZooKeeperStore":
        """Open a session with "host:port,host:port…". All paths are below `root`, which is created."""
        client = KazooClient(
            hosts=addresses,
            timeout=session_timeout_ms / 1000,
            connection_retry=_RECONNECT,
            handler=_OnTheLoop(loop),
        )
        store = cls(client, loop=loop, work=work, root=root)
        try:
            await store._begin(timeout_ms=connect_timeout_ms)
        except BaseException:
            await store.close()
            raise
        return store

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode:
        data, stat = await self._ask(partial(self._client.get_async, self._full(path), watch=_wrapped(watch)))
        return StoreNode(data, stat.version)

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        names = await self._ask(
            partial(self._client.get_children_async, self._full(path), watch=_wrapped(watch))
        )
        return sorted(names)

    async def multi(self, operations: Sequence[Operation]) -> None:
        transaction = self._client.transaction()
        for operation in operations:
            _add(transaction, replace(operation, path=self._full(operation.path)))
        for outcome in await self._ask(transaction.commit_async):
            if isinstance(outcome, Exception) and not isinstance(outcome, _INNOCENT):
                raise _translated(outcome)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session.on_change(callback)

    async def close(self) -> None:
        """Close the session, which deletes its ephemeral nodes. Idempotent.

        If no server answers, this returns after `_GOODBYE_S`: unanswered requests fail, and the ephemeral nodes stay
        until the session times out.
        """
        await self._end("the metadata store is closed")

    async def _begin(self, *, timeout_ms: int) -> None:
        connected: asyncio.Future[None] = self._loop.create_future()

        def hear(state: SessionState) -> None:
            if state is SessionState.CONNECTED and not connected.done():
                connected.set_result(None)

        def give_up() -> None:
            if not connected.done():
                connected.set_exception(ConnectionLossError(f"no answer within {timeout_ms} ms"))

        self._session.on_change(hear)
        self._client.add_listener(self._hear)
        timer = self._loop.call_later(timeout_ms / 1000, give_up)
        try:
            await self._work.run(self._client.start_async)
            await connected
        finally:
            timer.cancel()
        await self._ask(partial(self._client.ensure_path_async, self._full("/")))
        await self._compare_clocks()

    async def _compare_clocks(self) -> None:
        """Warn if this machine's clock differs from ZooKeeper's, the one clock that all brokers can read.

        ZooKeeper reports the time at which a node was written, so this writes a node that has no other use.
        """
        path = self._full(f"/clock-{self._client.client_id[0]:x}")
        transaction = self._client.transaction()
        transaction.create(path)
        transaction.set_data(path, b"now")
        transaction.delete(path)
        before_ms = self._loop.now_ms()
        try:
            _, written, _ = await self._ask(transaction.commit_async)
        except StoreError as error:
            log.debug("cannot compare this machine's clock with ZooKeeper's: %s", error)
            return
        after_ms = self._loop.now_ms()
        ahead_ms = max(before_ms - written.mtime, 0) or min(after_ms - written.mtime, 0)
        if abs(ahead_ms) > CLOCK_TOLERANCE_MS:
            log.warning(
                "this machine's clock is %d s %s ZooKeeper's. Retention, expiry and the timestamps that brokers give "
                "go by each broker's own clock: set all clocks by one time server (NTP)",
                round(abs(ahead_ms) / 1000),
                "ahead of" if ahead_ms > 0 else "behind",
            )

    def _full(self, path: str) -> str:
        """The full path in the ensemble. kazoo's own chroot would not create a root of several levels."""
        return self._root + path if path != "/" else self._root or "/"

    async def _ask(self, request: Callable[[], Any]) -> Any:
        """Send a request and await its answer. Never repeated: only the caller knows whether it may be."""
        self._session.check()
        answered: asyncio.Future[Any] = self._loop.create_future()
        with self._ending:
            if self._ended:
                raise SessionExpiredError("the session with ZooKeeper expired")
            result = request()
        result.rawlink(partial(_hand_over, answered))
        self._unanswered[answered] = None
        try:
            return await answered
        except refusals.KazooException as error:
            raise _translated(error) from error
        finally:
            self._unanswered.pop(answered, None)

    def _hear(self, state: str) -> None:
        """Pass on a session event; called on kazoo's thread."""
        if state == KazooState.LOST:
            with self._ending:
                self._ended = True
        self._client.handler.post(self._follow, state)

    def _follow(self, state: str) -> None:
        match state:
            case KazooState.CONNECTED if not self._ended:
                self._session.connected()
            case KazooState.SUSPENDED:
                self._session.suspended()
            case KazooState.LOST:
                self._begin_end("the session with ZooKeeper expired")

    def _begin_end(self, why: str) -> asyncio.Task[None]:
        """Stop kazoo's threads, which would otherwise open a new session."""
        self._session.end(why)
        if self._closing is None:
            self._closing = self._loop.create_task(self._stop_client(), name="metadata store close")
        return self._closing

    async def _end(self, why: str) -> None:
        await asyncio.shield(self._begin_end(why))

    async def _stop_client(self) -> None:
        stopped: asyncio.Future[None] = self._loop.create_future()

        def finish() -> None:
            if not stopped.done():
                stopped.set_result(None)

        def stop() -> None:
            try:
                self._client.stop()
                self._client.close()
            except Exception as error:
                log.debug("ZooKeeper's client did not stop cleanly: %r", error)
            self._client.handler.post(finish)

        # On a separate thread: if no server answers, kazoo joins threads that wait for one.
        self._client.handler.spawn(stop)
        timer = self._loop.call_later(_GOODBYE_S, finish)
        await stopped
        timer.cancel()
        for answered in self._unanswered:
            if not answered.done():
                answered.set_exception(self._session.broken())


class _OnTheLoop(SequentialThreadingHandler):  # type: ignore[misc]
    """Makes kazoo call back on the loop instead of on its callback threads."""

    # If the handler were not running, kazoo would call back on its own thread.
    running = True

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop.create_future().get_loop()
        self.completion_queue = self

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def dispatch_callback(self, callback: Any) -> None:
        self.post(callback.func, *callback.args)

    def put(self, function: Callable[[], None]) -> None:
        """Stands in for kazoo's queue of completions."""
        self.post(function)

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():  # else no callback can run any more
            self._loop.call_soon_threadsafe(function, *arguments)


def _wrapped(watch: Callable[[], None] | None) -> Callable[[Any], None] | None:
    """A new function for each watch: kazoo keeps watches in a set, and the same watch may be set twice."""
    return None if watch is None else lambda _event: watch()


def _hand_over(answered: "asyncio.Future[Any]", result: Any) -> None:
    if answered.done():  # its caller gave up
        return
    if result.successful():
        answered.set_result(result.get_nowait())
    else:
        answered.set_exception(result.exception)


def _add(transaction: TransactionRequest, operation: Operation) -> None:
    match operation:
        case Create(path, data, ephemeral):
            transaction.create(path, data, ephemeral=ephemeral)
        case Set(path, data, version):
            transaction.set_data(path, data, version)
        case Delete(path, version):
            transaction.delete(path, version)
        case Check(path, version):
            transaction.check(path, version)


def _translated(error: Exception) -> StoreError:
    for theirs, ours in _ERRORS:
        if isinstance(error, theirs):
            return ours(str(error) or type(error).__name__)
    return StoreError(f"ZooKeeper refused: {error!r}")
