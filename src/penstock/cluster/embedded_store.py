"""The metadata store of a broker without ZooKeeper: a tree in memory, with an append-only log and snapshots on disk.

A `multi` returns when its changes are synced to the device. Changes that arrive during a sync are written together and
share the next sync. There are two trees. Operations are checked against the *staged* tree, which includes changes that
are not yet synced. Reads and watches use the *committed* tree, so no caller sees a change that a crash could undo.

The session lasts as long as the store is open: opening it again removes the ephemeral nodes. A failed sync ends the
session early.
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

# A log of this size is replaced by a snapshot; replaying it takes some tens of milliseconds.
SNAPSHOT_AFTER_BYTES = 4 << 20

# The most changes that share a sync; writing and applying them blocks the loop for some 3 ms.
SHARED_MAX = 256

Watches = dict[str, list[Callable[[], None]]]


class _Pending(NamedTuple):
    """A `multi` that was checked and staged, and waits for its sync."""

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
        # Written in the session's first entry: an entry of its own would need one more sync.
        self._preamble: list[Change] = [NewSession()]
        self._flusher: asyncio.Task[None] | None = None
        self._snapshotter: asyncio.Task[None] | None = None
        self._over: str | None = None  # why the session is over
        self._is_refusing = False  # the last batch could not be written
        self._lacks_room = False  # the disk has no room for a new log
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
        """Load the store from disk, or create an empty one. Blocks: at start-up. `recovery` says what was found."""
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
        # A `multi` without changes waits too: the nodes that it checked may not be synced yet.
        self._pending.append(_Pending(changes, done))
        if self._flusher is None:
            self._flusher = self._loop.create_task(self._flush(), name="metadata store flush")
        await done

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._session_callbacks.append(callback)
        self._loop.call_soon(callback, SessionState.CONNECTED if self._over is None else SessionState.EXPIRED)

    async def close(self) -> None:
        """Complete all pending changes, and refuse further ones. Idempotent."""
        if self._over is None:
            self._over = "the metadata store is closed"
        if self._flusher is not None:
            await self._flusher
        if self._snapshotter is not None:  # the flusher may have begun it at last
            await self._snapshotter
        self._files.close()

    async def _flush(self) -> None:
        """Write and sync pending changes until none are left."""
        try:
            while self._pending:
                batch, self._pending = self._pending[:SHARED_MAX], self._pending[SHARED_MAX:]
                if await self._write(batch):
                    self._commit(batch)
                    await self._begin_snapshot_if_due()
        finally:
            self._flusher = None

    async def _write(self, batch: list[_Pending]) -> bool:
        """Write and sync the changes of a batch; False if that failed, and its callers got the error."""
        changes = [change for pending in batch for change in pending.changes]
        if not changes:
            return True
        try:
            self._files.append(self._preamble + changes)
        except OSError as error:
            # The file is unchanged: discard what was staged on top of it, and continue.
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
        """Fire the watches on the nodes of a change."""
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
        """Fail all waiting calls; none of their changes was made."""
        refused = batch + self._pending
        self._pending = []
        self._staged = self._committed.copy()
        for pending in refused:
            if not pending.done.done():
                pending.done.set_exception(StorageError(reason))

    def _fail(self, batch: list[_Pending], reason: str) -> None:
        """End the session: it is unknown which changes are on the device."""
        self._over = reason
        self._refuse(batch, reason)
        for callback in self._session_callbacks:
            self._loop.call_soon(callback, SessionState.EXPIRED)

    async def _begin_snapshot_if_due(self) -> None:
        """Begin a new log when this one is large, and write a snapshot of the tree before it, in the background."""
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
        # The committed tree equals the content of the logs before the new one: nothing was written meanwhile.
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
            # Nothing is lost: all older logs are still there. The next full log brings the next attempt.
            _log.warning("the metadata store could not write a snapshot: %s", error)
        self._snapshotter = None
