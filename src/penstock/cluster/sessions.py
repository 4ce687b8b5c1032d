"""A store whose session can be begun anew: an expired one is over, and the broker goes on with the next.

While the broker starts, the store is patient: a call that finds the link broken, or the session over, is made again
until it is answered or `initial.broker.registration.timeout.ms` have passed. Everything that a start writes (the
first nodes, the broker's registration) is read again before it is decided again, so it may be written twice. From then
on every caller hears of a broken link, for only the caller knows what that means.
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
    """The metadata store does not answer a broker that starts."""


class Patience:
    """How long a start waits for the store at `addresses`, and what it says meanwhile."""

    def __init__(self, loop: Loop, *, addresses: str, first_ms: int, then_ms: int) -> None:
        """`first_ms` for the first answer, `then_ms` whenever the store stops answering later."""
        self._loop = loop
        self._addresses = addresses
        self._first_ms = first_ms
        self._then_ms = then_ms

    async def open(self, open_store: Callable[[], Awaitable[Store]]) -> Store:
        """The first session."""
        return await self._insist(
            open_store, self._first_ms, f"no ZooKeeper answers at {self._addresses}", self._loop.time()
        )

    async def call(self, call: Callable[[], Awaitable[T]], renew: Callable[[], Awaitable[None]]) -> T:
        """The answer to a call of this session, or of the next ones."""

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
    """A `Store` that hands everything on to that of the present session."""

    def __init__(
        self,
        first: Store,
        open_store: Callable[[], Awaitable[Store]],
        loop: Loop,
        patience: Patience | None = None,
    ) -> None:
        """With `patience`, calls wait for a store that does not answer, until `end_patience`."""
        self._store = first
        self._open_store = open_store
        self._loop = loop
        self._patience = patience
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._closed = False

    def end_patience(self) -> None:
        """The broker has registered: from now on a broken link is told to callers."""
        self._patience = None

    async def renew(self) -> None:
        """Begin another session, whenever that is possible."""
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
