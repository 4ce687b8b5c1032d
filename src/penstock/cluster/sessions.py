"""A store whose session can be begun anew: an expired one is over, and the broker goes on with the next."""

from collections.abc import Awaitable, Callable, Sequence

from penstock.world.loop import Loop
from penstock.world.store import Node, Operation, SessionExpiredError, SessionState, Store, StoreError

_TRY_AGAIN_S = 0.5


class RenewableStore:
    """A `Store` that hands everything on to that of the present session."""

    def __init__(self, first: Store, open_store: Callable[[], Awaitable[Store]], loop: Loop) -> None:
        self._store = first
        self._open_store = open_store
        self._loop = loop
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._closed = False

    async def renew(self) -> None:
        """Begin another session, whenever that is possible."""
        while not self._closed:
            try:
                store = await self._open_store()
            except StoreError:
                await self._loop.sleep(_TRY_AGAIN_S)
                continue
            if self._closed:
                await store.close()
                break
            self._store = store
            for callback in self._callbacks:
                store.on_session(callback)
            return
        raise SessionExpiredError("the metadata store is closed")

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> Node:
        return await self._store.get(path, watch=watch)

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        return await self._store.children(path, watch=watch)

    async def multi(self, operations: Sequence[Operation]) -> None:
        await self._store.multi(operations)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._callbacks.append(callback)
        self._store.on_session(callback)

    async def close(self) -> None:
        self._closed = True
        await self._store.close()
