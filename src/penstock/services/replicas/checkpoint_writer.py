"""Checkpoints of the data directory: recovery points, log start offsets, high watermarks, cleaner offsets.

Deleting and truncating logs writes to the same files, so all writers take turns (`in_turn`): an older view of a deleted
partition must not be written back and be taken for a new partition of the same name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from penstock.base.errors import StorageError
from penstock.base.ids import TopicPartition
from penstock.services.replicas.replica import Replica
from penstock.storage.data_directory import DataDirectory
from penstock.storage.errors import NoRoomError
from penstock.world import World
from penstock.world.disk import found_no_room
from penstock.world.pacing import Pacer

log = logging.getLogger("penstock.partitions")


class CheckpointWriter:
    """Writes the checkpoints of a broker's replicas, one writer at a time."""

    def __init__(
        self,
        world: World,
        directory: DataDirectory,
        replicas: Callable[[], Iterable[Replica]],
        *,
        slice_ms: int,
    ) -> None:
        self._world = world
        self._directory = directory
        self._replicas = replicas
        self._slice_ms = slice_ms
        self._turn = asyncio.Lock()

    async def write_checkpoints(self) -> None:
        """Write the recovery point and the log start offset of every log."""

        async def write() -> None:
            await self._note_offsets()
            await self._world.work.run(self._directory.write_checkpoints)

        await self.in_turn(write)

    async def write_start_offsets(self) -> None:
        """Write the log start offset of every log."""

        async def write() -> None:
            await self._note_offsets()
            await self._world.work.run(self._directory.write_start_offsets)

        await self.in_turn(write)

    async def write_high_watermarks(self) -> None:
        """Write the high watermark of every replica: the next start begins with it."""

        async def write() -> None:
            self._directory.note_high_watermarks(await self._high_watermarks())
            try:
                await self._world.work.run(self._directory.write_high_watermarks)
            except OSError as error:
                kind = NoRoomError if found_no_room(error) else StorageError
                raise kind(f"writing the high watermark checkpoint failed: {error}") from error

        await self.in_turn(write)

    async def _high_watermarks(self) -> dict[TopicPartition, int]:
        """Of the partitions with other replicas: a sole replica computes its high watermark from its log."""
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        found = {}
        for replica in list(self._replicas()):
            if len(replica.state.replicas) > 1 and not replica.in_memory:
                found[replica.topic_partition] = replica.high_watermark
            await pacer.pause()
        return found

    async def _note_offsets(self) -> None:
        """Note the offsets of all logs. A log that is deleted meanwhile is removed from the checkpoints afterwards."""
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        logs = (
            (replica.topic_partition, replica.log)
            for replica in list(self._replicas())
            if not replica.in_memory
        )
        for _ in self._directory.note_offsets_stepwise(logs):
            await pacer.pause()

    async def write_cleaner_offset(self, replica: Replica, offset: int) -> None:
        """Write the offset up to which compaction has come."""
        key = replica.topic_partition

        async def write() -> None:
            if replica.log.failed is None:
                await self._world.work.run(
                    partial(self._directory.write_cleaner_offset, key, replica.log, offset)
                )

        await self.in_turn(write)

    async def set_data_version(self, data_version: int) -> None:
        """Write the data version that a program needs to read the data directory.

        If that fails, the finalized feature level in the metadata still keeps older programs out, and the next start
        tries again.
        """
        if data_version == self._directory.meta.data_version:
            return

        async def write() -> None:
            await self._world.work.run(partial(self._directory.set_data_version, data_version))

        try:
            await self.in_turn(write)
        except OSError as error:
            log.error("cannot write data version %d to meta.properties: %s", data_version, error)

    async def remove(self, partition: TopicPartition) -> None:
        """Remove a partition from all checkpoints."""

        async def write() -> None:
            await self._world.work.run(partial(self._directory.remove_from_checkpoints, [partition]))

        await self.in_turn(write)

    async def close_cleanly(self) -> None:
        """Sync and close every log, write all checkpoints, and mark the shutdown as clean."""

        async def close() -> None:
            logs = {
                replica.topic_partition: replica.log for replica in self._replicas() if not replica.in_memory
            }
            self._directory.note_high_watermarks(await self._high_watermarks())
            problem = await self._world.work.run(lambda: self._directory.close_cleanly(logs))
            if problem is not None:
                log.warning(
                    "clean shutdown incomplete: %s; the next start recovers all logs, without data loss",
                    problem,
                )

        await self.in_turn(close)

    async def in_turn(self, write: Callable[[], Awaitable[None]]) -> None:
        """Run `write` when no other writer has the directory's files."""

        async def turn() -> None:
            async with self._turn:
                await write()

        # A write in the work pool cannot be cancelled; its turn lasts until it is done.
        task = self._world.loop.create_task(turn())
        task.add_done_callback(_retrieve_exception)
        await asyncio.shield(task)


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Retrieve a failure whose caller was cancelled, so that asyncio does not log it as a bug."""
    if not task.cancelled():
        task.exception()
