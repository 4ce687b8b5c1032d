"""A store that opens the next session after one has expired, and repeats calls while the broker starts.

A `Store` object is one session: an expired one fails all calls for good. `RenewableStore` replaces it by a new one when
`renew` is called, and passes all calls on to the current one.

While the broker starts (`Patience`), a call that finds the connection broken or the session expired is repeated until
it is answered or `initial.broker.registration.timeout.ms` have passed. That is safe, because everything that a start
writes (the first nodes, the broker's registration) is read again before it is written again. Once the broker has
registered, each caller gets the error, since only the caller knows whether its call may be repeated.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from penstock.base.errors import UserError
from penstock.world.loop import Loop
from penstock.world.repeating import Repeating
from penstock.world.store import (
    ConnectionLossError,
    Operation,
    SessionExpiredError,
    SessionState,
    Store,
    StoreError,
    StoreNode,
)

T = TypeVar("T")

_TRY_AGAIN_S = 0.5
_SAY_EVERY_S = 5.0

log = logging.getLogger("penstock.cluster")


class StoreUnavailableError(UserError):
    """The metadata store did not answer while the broker started."""


class Patience:
    """Repeats the calls of a broker that starts until the store at `addresses` answers, and logs that it waits."""

    def __init__(self, loop: Loop, *, addresses: str, first_ms: int, then_ms: int) -> None:
        """`first_ms` limits the wait for the first answer, `then_ms` each later wait."""
        self._loop = loop
        self._addresses = addresses
        self._first_ms = first_ms
        self._then_ms = then_ms

    async def open(self, open_store: Callable[[], Awaitable[Store]]) -> Store:
        """Open the first session."""
        return await self._insist(
            open_store, self._first_ms, f"no ZooKeeper answers at {self._addresses}", self._loop.time()
        )

    async def call(self, call: Callable[[], Awaitable[T]], renew: Callable[[], Awaitable[None]]) -> T:
        """The answer to a call, made in this session or, after an expiry, in a later one."""

        async def once() -> T:
            try:
                return await call()
            except SessionExpiredError:
                await renew()
                return await call()

        begun = self._loop.time()
        problem = f"ZooKeeper at {self._addresses} does not answer any more"
        return await self._insist(once, self._then_ms, problem, begun)

    async def _insist(self, call: Callable[[], Awaitable[T]], limit_ms: int, problem: str, begun: float) -> T:
        reason: StoreError | None = None

        def say() -> None:
            left_s = max(0.0, limit_ms / 1000 - (self._loop.time() - begun))
            why = f" ({reason})" if reason is not None else ""
            log.warning("%s%s; trying for another %.0f s", problem, why, left_s)

        progress = Repeating(self._loop, _SAY_EVERY_S, say)
        try:
            while True:
                try:
                    return await call()
                except (ConnectionLossError, SessionExpiredError) as error:
                    if self._loop.time() - begun >= limit_ms / 1000:
                        raise StoreUnavailableError(
                            f"{problem} (tried for {limit_ms} ms; last: {error}): start ZooKeeper, or correct its "
                            "address in --zookeeper, then start this broker again"
                        ) from error
                    is_first, reason = reason is None, error
                    if is_first:
                        progress.now()
                await self._loop.sleep(_TRY_AGAIN_S)
        finally:
            progress.stop()


class RenewableStore:
    """A `Store` that passes all calls on to the store of the current session."""

    def __init__(
        self,
        first: Store,
        open_store: Callable[[], Awaitable[Store]],
        loop: Loop,
        patience: Patience | None = None,
    ) -> None:
        """With `patience`, calls that are not answered are repeated, until `end_patience` is called."""
        self._store = first
        self._open_store = open_store
        self._loop = loop
        self._patience = patience
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._closed = False

    def end_patience(self) -> None:
        """The broker has registered: from now on callers get the error of a broken connection."""
        self._patience = None

    async def renew(self) -> None:
        """Open a new session, repeating that until it succeeds."""
        while not self._closed:
            try:
                await self._renew_once()
                return
            except StoreError:
                await self._loop.sleep(_TRY_AGAIN_S)
        raise SessionExpiredError("the metadata store is closed")

    async def _renew_once(self) -> None:
        store = await self._open_store()
        if self._closed:
            await store.close()
            raise SessionExpiredError("the metadata store is closed")
        self._store = store
        for callback in self._callbacks:
            store.on_session(callback)

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        return await call() if self._patience is None else await self._patience.call(call, self._renew_once)

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode:
        return await self._ask(lambda: self._store.get(path, watch=watch))

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        return await self._ask(lambda: self._store.children(path, watch=watch))

    async def multi(self, operations: Sequence[Operation]) -> None:
        await self._ask(lambda: self._store.multi(operations))

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._callbacks.append(callback)
        self._store.on_session(callback)

    async def close(self) -> None:
        self._closed = True
        await self._store.close()
