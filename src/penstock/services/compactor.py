"""The log cleaner: compacts one log after the other, overdue logs first, then those with the highest dirty ratio.

Overdue is a log with dirty records older than `max.compaction.lag.ms`. Damage found by a run is left alone until it is
repaired. A run that finds the disk full is tried again by the next run.
"""

import logging
from collections.abc import Container
from functools import partial

from penstock.base.broker_settings import (
    LOG_CLEANER_DEDUPE_BUFFER_SIZE,
    LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
    PENSTOCK_LOOP_SLICE_MS,
)
from penstock.base.errors import StorageError
from penstock.base.ids import TopicPartition
from penstock.base.settings import Settings
from penstock.services.configs import Configs
from penstock.services.metrics import Metrics
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.storage.compaction import CompactionResult, DirtyRange, cleanable, compact
from penstock.storage.damage_handling import note_damage
from penstock.storage.data_directory import DataDirectory
from penstock.storage.errors import DamagedBatchError, NoRoomError
from penstock.world import World
from penstock.world.pacing import Pacer

log = logging.getLogger("penstock.compactor")


class Compactor:
    """Compacts logs one at a time, until none is due."""

    def __init__(
        self,
        world: World,
        configs: Configs,
        replicas: ReplicaManager,
        directory: DataDirectory,
        metrics: Metrics,
    ) -> None:
        self._world = world
        self._configs = configs
        self._replicas = replicas
        self._directory = directory
        self._in_memory: dict[Replica, int] = {}  # the cleaner offsets of logs in memory
        self._failed: dict[Replica, None] = {}  # compaction failed; retried after a restart
        self._logged_no_room: dict[Replica, None] = {}
        self._removed = metrics.counter(
            "penstock_compacted_records_total", "Records that compaction removed."
        )

    @property
    def _settings(self) -> Settings:
        return self._configs.broker

    async def run(self) -> None:
        """Compact until no log is due."""
        no_room: dict[Replica, None] = {}
        while (chosen := await self._choose(no_room)) is not None:
            partition, dirty = chosen
            try:
                result = await self._compact(partition, dirty)
            except NoRoomError as error:
                # The next run retries; this one continues with the other logs, which may need less room.
                self._lacks_room(partition, error)
                no_room[partition] = None
                continue
            except DamagedBatchError as error:
                # A segment that is marked as damaged is not compacted until it is repaired.
                try:
                    await self._world.work.run(partial(note_damage, partition.log, error))
                except StorageError as problem:
                    self._fail(partition, problem)
                continue
            except StorageError as error:
                self._fail(partition, error)
                continue
            self._logged_no_room.pop(partition, None)
            if result is not None:
                await self._note_result(partition, result)

    async def _choose(self, passed_over: Container[Replica]) -> tuple[Replica, DirtyRange] | None:
        pacer = self._pacer()
        best: tuple[Replica, DirtyRange] | None = None
        partitions = list(self._replicas.all())
        self._forget_all_but(partitions)
        for partition in partitions:
            await pacer.pause()
            if not partition.log.config.compact or partition in self._failed or partition in passed_over:
                continue
            if partition.truncation is not None or partition.is_being_rewritten:
                continue
            try:
                dirty = await self._dirty_range(partition)
            except (OSError, StorageError) as error:
                if partition.log.failed is None:  # else it was deleted, or is offline and has been logged
                    self._fail(partition, error)
                continue
            if dirty is not None and (best is None or _urgency(dirty) > _urgency(best[1])):
                best = partition, dirty
        return best

    async def _dirty_range(self, partition: Replica) -> DirtyRange | None:
        return await self._world.work.run(
            partial(
                cleanable,
                partition.log,
                cleaner_offset=self._cleaner_offset(partition),
                upto_offset=partition.last_stable_offset,
                now_ms=self._world.loop.now_ms(),
            )
        )

    def _lacks_room(self, partition: Replica, error: NoRoomError) -> None:
        if partition not in self._logged_no_room:
            self._logged_no_room[partition] = None
            log.warning("%s: compaction waits for room on the disk: %s", partition, error)

    def _fail(self, partition: Replica, error: Exception) -> None:
        log.error("%s: compaction failed, and is not tried again before a restart: %s", partition, error)
        self._failed[partition] = None

    async def _compact(self, partition: Replica, dirty: DirtyRange) -> CompactionResult | None:
        world = self._world
        if partition.truncation is not None or partition.is_being_rewritten:
            return None
        partition.is_being_rewritten = True  # a truncation waits for it
        try:
            await self._checkpoint_start_offset(partition)
            return await compact(
                partition.log,
                partition.disk,
                dirty,
                work=world.work,
                pacer=self._pacer(),
                now_ms=world.loop.now_ms(),
                map_bytes_max=self._settings[LOG_CLEANER_DEDUPE_BUFFER_SIZE],
            )
        finally:
            partition.is_being_rewritten = False

    async def _checkpoint_start_offset(self, partition: Replica) -> None:
        """Checkpoint the log start offset first: a run removes the records below it, so it must not go back in a
        crash.
        """
        written = partition.log.segments[0].base_offset
        while partition.log.start_offset > written and not partition.in_memory:
            written = partition.log.start_offset
            await self._replicas.checkpoints.write_start_offsets()

    async def _note_result(self, partition: Replica, result: CompactionResult) -> None:
        self._removed.add(result.records_removed)
        log.info(
            "%s compacted up to offset %d: %d records and %d bytes removed",
            partition,
            result.end_offset,
            result.records_removed,
            result.bytes_before - result.bytes_after,
        )
        if partition.in_memory:
            self._in_memory[partition] = result.end_offset
        else:
            await self._replicas.checkpoints.write_cleaner_offset(partition, result.end_offset)
        moved_bytes = result.bytes_before + result.bytes_after
        await self._world.loop.sleep(moved_bytes / self._settings[LOG_CLEANER_IO_MAX_BYTES_PER_SECOND])

    def _cleaner_offset(self, partition: Replica) -> int:
        if partition.in_memory:
            return self._in_memory.get(partition, 0)
        return self._directory.cleaner_offsets.get(TopicPartition(partition.topic, partition.index), 0)

    def _forget_all_but(self, partitions: list[Replica]) -> None:
        """Forget deleted partitions: a deleted topic must not be confused with a later one of the same name."""
        self._in_memory = {p: self._in_memory[p] for p in partitions if p in self._in_memory}
        self._failed = {p: None for p in partitions if p in self._failed}
        self._logged_no_room = {p: None for p in partitions if p in self._logged_no_room}

    def _pacer(self) -> Pacer:
        return Pacer(self._world.loop, slice_ms=self._settings[PENSTOCK_LOOP_SLICE_MS])


def _urgency(dirty: DirtyRange) -> tuple[bool, float]:
    return dirty.is_overdue, dirty.dirty_ratio
