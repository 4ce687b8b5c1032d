"""The metadata store of a broker that has no ensemble: a tree in memory, kept by a log and snapshots on disk.

A `multi` returns when its changes are on the device. Those that arrive while a sync is under way are written
together and share the next one. Two trees follow the same changes: the *staged* one decides, and is ahead by
what is not yet synced; the *committed* one answers reads and fires watches, so that nobody sees what a crash
could take back.

The session lasts as long as the store is open: ephemeral nodes are gone when it is opened again. A failed
sync ends it early.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from penstock.base.errors import StorageError
from penstock.cluster.node_tree import Change, NewSession, NodeTree, Remove, split
from penstock.cluster.store_files import Recovery, StoreFiles
from penstock.world.disk import Disk, found_no_room
from penstock.world.loop import Loop
from penstock.world.store import Operation, SessionState, StoreNode
from penstock.world.work import Work

_log = logging.getLogger(__name__)

# A log this long is replaced by a snapshot; reading it back takes some tens of milliseconds.
SNAPSHOT_AFTER_BYTES = 4 << 20

# So many changes share a sync; writing and applying them holds the loop for some three milliseconds.
SHARED_MAX = 256

Watches = dict[str, list[Callable[[], None]]]


class _Pending(NamedTuple):
    """A `multi` that is decided and waits for the device."""

    changes: list[Change]
    done: asyncio.Future[None]


class EmbeddedStore:
    """A `Store` in one process. Everything but `open` runs on the loop."""

    def __init__(
        self, tree: NodeTree, files: StoreFiles, *, loop: Loop, work: Work, snapshot_after_bytes: int
    ) -> None:
        self._loop = loop
        self._work = work
        self._files = files
        self._snapshot_after_bytes = snapshot_after_bytes
        self._committed = tree
        self._staged = tree.copy()
        self._pending: list[_Pending] = []
        # Stands in the session's first entry: one of its own would need a sync of its own.
        self._preamble: list[Change] = [NewSession()]
        self._flusher: asyncio.Task[None] | None = None
        self._snapshotter: asyncio.Task[None] | None = None
        self._over: str | None = None  # why nothing is accepted any more
        self._is_refusing = False  # the last change could not be written
        self._lacks_room = False  # for a new log
        self._node_watches: Watches = {}
        self._child_watches: Watches = {}
        self._session_callbacks: list[Callable[[SessionState], None]] = []
        self.recovery = Recovery(entries=0, cut_bytes=0)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        loop: Loop,
        work: Work,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> "EmbeddedStore":
        """Read the store back, or begin an empty one. Blocks: at start-up. `recovery` tells what it found."""
        tree = NodeTree()
        files = StoreFiles(disk, directory)
        try:
            recovery = files.recover(tree)
        except OSError as error:
            raise StorageError(f"{directory}: the metadata store cannot be opened: {error}") from error
        tree.apply(NewSession())
        store = cls(tree, files, loop=loop, work=work, snapshot_after_bytes=snapshot_after_bytes)
        store.recovery = recovery
        return store

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode:
        node = self._committed.get(path)
        if watch is not None:
            self._node_watches.setdefault(path, []).append(watch)
        return node

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        names = self._committed.children(path)
        if watch is not None:
            self._child_watches.setdefault(path, []).append(watch)
        return names

    async def multi(self, operations: Sequence[Operation]) -> None:
        if self._over is not None:
            raise StorageError(self._over)
        changes = self._staged.perform(operations)
        done: asyncio.Future[None] = self._loop.create_future()
        # One without changes waits too: what its checks saw may not be on the device yet.
        self._pending.append(_Pending(changes, done))
        if self._flusher is None:
            self._flusher = self._loop.create_task(self._flush(), name="metadata store flush")
        await done

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session_callbacks.append(callback)
        self._loop.call_soon(callback, SessionState.CONNECTED if self._over is None else SessionState.EXPIRED)

    async def close(self) -> None:
        """Finish what was begun, then accept no more. Fine to repeat."""
        if self._over is None:
            self._over = "the metadata store is closed"
        if self._flusher is not None:
            await self._flusher
        if self._snapshotter is not None:  # the flusher may have begun it at last
            await self._snapshotter
        self._files.close()

    async def _flush(self) -> None:
        """Write and sync what is pending, again and again until nothing is."""
        try:
            while self._pending:
                batch, self._pending = self._pending[:SHARED_MAX], self._pending[SHARED_MAX:]
                if await self._write(batch):
                    self._commit(batch)
                    await self._begin_snapshot_if_due()
        finally:
            self._flusher = None

    async def _write(self, batch: list[_Pending]) -> bool:
        """Get the changes of a batch onto the device; if that fails, its callers hear it."""
        changes = [change for pending in batch for change in pending.changes]
        if not changes:
            return True
        try:
            self._files.append(self._preamble + changes)
        except OSError as error:
            # The file is as it was: forget what was staged on top of it, and go on.
            if not self._is_refusing:
                self._is_refusing = True
                _log.warning(
                    "the metadata store cannot be written; rejecting metadata changes until it can: %s", error
                )
            self._refuse(batch, f"the metadata store cannot be written: {error}")
            return False
        if self._is_refusing:
            self._is_refusing = False
            _log.warning("the metadata store can be written again; accepting metadata changes")
        try:
            await self._work.run(self._files.sync)
        except OSError as error:
            self._fail(batch, f"the metadata store could not be synced and is closed: {error}")
            return False
        self._preamble = []
        return True

    def _commit(self, batch: list[_Pending]) -> None:
        for pending in batch:
            for change in pending.changes:
                self._fire(change)
                self._committed.apply(change)
            if not pending.done.done():
                pending.done.set_result(None)

    def _fire(self, change: Change) -> None:
        """Call the watches that a change is about to concern."""
        assert not isinstance(change, NewSession)
        path = change.path
        callbacks = self._node_watches.pop(path, [])
        if isinstance(change, Remove):
            callbacks += self._child_watches.pop(path, [])
        if isinstance(change, Remove) or path not in self._committed:
            callbacks += self._child_watches.pop(split(path)[0], [])
        for callback in callbacks:
            self._loop.call_soon(callback)

    def _refuse(self, batch: list[_Pending], reason: str) -> None:
        """Tell everybody who is waiting that nothing was changed."""
        refused = batch + self._pending
        self._pending = []
        self._staged = self._committed.copy()
        for pending in refused:
            if not pending.done.done():
                pending.done.set_exception(StorageError(reason))

    def _fail(self, batch: list[_Pending], reason: str) -> None:
        """End the session: what is on the device is unknown."""
        self._over = reason
        self._refuse(batch, reason)
        for callback in self._session_callbacks:
            self._loop.call_soon(callback, SessionState.EXPIRED)

    async def _begin_snapshot_if_due(self) -> None:
        """Start a new log when this one has grown, and save the tree it starts from beside the traffic."""
        if self._snapshotter is not None or not self._files.snapshot_due(
            log_bytes_min=self._snapshot_after_bytes
        ):
            return
        try:
            number, sequence = await self._work.run(self._files.begin_next_log)
        except OSError as error:
            if found_no_room(error):
                if not self._lacks_room:
                    _log.warning(
                        "the metadata store keeps its long log: no room on the disk for a snapshot: %s", error
                    )
                self._lacks_room = True
            else:
                self._fail([], f"the metadata store cannot begin a new log and is closed: {error}")
            return
        self._lacks_room = False
        # The committed tree is exactly what the logs before the new one hold: nothing was written meanwhile.
        write = partial(
            self._files.write_snapshot,
            number,
            sequence,
            nodes=self._committed.nodes(),
            ephemerals=self._committed.ephemerals(),
        )
        self._snapshotter = self._loop.create_task(self._snapshot(write), name="metadata store snapshot")

    async def _snapshot(self, write: Callable[[], None]) -> None:
        try:
            await self._work.run(write)
        except OSError as error:
            # Nothing is lost: the older logs are all there. The next try comes with the next full log.
            _log.warning("the metadata store could not write a snapshot: %s", error)
        self._snapshotter = None
