"""The broker's periodic chores: flush, retention, compaction, checkpoints, idle connections, the loop's delay.

Each chore is a coroutine that runs at its interval, one run after the other, in slices of `penstock.loop.slice.ms`.
A failure of a chore is logged, and the chore runs again after its interval; it never ends the broker.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, NamedTuple

from penstock.apis.context import Services
from penstock.base.broker_settings import (
    LOG_CLEANER_BACKOFF_MS,
    LOG_CLEANER_ENABLE,
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS,
    LOG_RETENTION_CHECK_INTERVAL_MS,
    PENSTOCK_LOOP_SLICE_MS,
    PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS,
    PRODUCER_ID_EXPIRATION_MS,
)
from penstock.base.settings import Settings
from penstock.broker.connections import Connections
from penstock.services.compactor import Compactor
from penstock.services.replicas.replica import Replica
from penstock.storage.data_directory import DataDirectory
from penstock.world.disk import found_no_room
from penstock.world.pacing import Pacer
from penstock.world.tasks import Tasks, repeat

log = logging.getLogger("penstock.background")

FLUSH_CHECK_INTERVAL_MS = 100
REMOVAL_CHECK_INTERVAL_MS = 1000
IDLE_CHECK_INTERVAL_MS = 1000
DELAY_CHECK_INTERVAL_MS = 100
_AT_A_TIME = 100  # partitions between two pauses


class Chore(NamedTuple):
    """A coroutine to run periodically, and its interval."""

    name: str
    interval_ms: Callable[[], int]
    run: Callable[[], Awaitable[None]]


class Background:
    """The broker's chores."""

    def __init__(self, services: Services, directory: DataDirectory, connections: Connections) -> None:
        self._services = services
        self._loop = services.node.world.loop
        self._directory = directory
        self._connections = connections
        self._compactor = Compactor(
            services.node.world,
            services.node.configs,
            services.logs.replicas,
            directory,
            services.node.metrics,
        )
        self._tasks = Tasks(self._loop)
        self._delay_s = services.node.metrics.histogram(
            "penstock_loop_delay_seconds", "How much later than asked for the event loop ran a timer."
        )

    @property
    def _settings(self) -> Settings:
        return self._services.node.configs.broker

    def start(self) -> None:
        for chore in self._chores():
            self._tasks.start(chore.name, self._repeat(chore))

    async def stop(self) -> None:
        await self._tasks.stop()

    def _chores(self) -> Iterator[Chore]:
        yield Chore("flush", lambda: FLUSH_CHECK_INTERVAL_MS, self.flush_old)
        yield Chore(
            "retention", lambda: self._settings[LOG_RETENTION_CHECK_INTERVAL_MS], self.expire_segments
        )
        yield Chore("removals", lambda: REMOVAL_CHECK_INTERVAL_MS, self.remove_deleted)
        yield Chore(
            "checkpoints",
            lambda: self._settings[LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS],
            self.write_checkpoints,
        )
        yield Chore(
            "producers",
            lambda: self._settings[PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS],
            self.expire_producers,
        )
        yield Chore("idle connections", lambda: IDLE_CHECK_INTERVAL_MS, self._close_idle)
        yield Chore("compaction", lambda: self._settings[LOG_CLEANER_BACKOFF_MS], self.compact)
        yield Chore("loop delay", lambda: DELAY_CHECK_INTERVAL_MS, self._measure_delay)

    def _repeat(self, chore: Chore) -> Coroutine[Any, Any, None]:
        return repeat(
            self._loop, chore.name, chore.run, log=log, interval_s=lambda: chore.interval_ms() / 1000
        )

    # The chores. Public ones are also called by tests and at shutdown.

    async def flush_old(self) -> None:
        """Request a sync of every partition whose oldest unsynced record is older than its flush.ms."""
        async for some in self._some_at_a_time():
            now_ms = self._loop.now_ms()
            for partition in some:
                since_ms = partition.unflushed_since_ms
                if since_ms is not None and now_ms - since_ms >= partition.topic_rules.flush_ms:
                    self._services.logs.flusher.request(partition)

    async def expire_segments(self) -> None:
        """Delete segments by retention, after a checkpoint of the new log start offsets of all those logs."""
        expired: list[tuple[Replica, int]] = []
        async for partition in self._paced():
            if not partition.log.failed and await self._services.node.world.work.run(
                partition.has_expired_segments
            ):
                new_start = partition.expire()
                if new_start is not None:
                    expired.append((partition, new_start))
        if expired:
            await self._write_down_starts(expired)
        for partition, new_start in expired:
            partition.delete_segments_below(new_start)

    async def _write_down_starts(self, expired: list[tuple[Replica, int]]) -> None:
        partitions = self._services.logs.replicas
        try:
            await partitions.checkpoints.write_start_offsets()
        except OSError as error:
            if not found_no_room(error):
                raise
            # Deletion frees space, so it must not fail for lack of space: the indexes of these segments free some.
            for partition, new_start in expired:
                await self._services.node.world.work.run(
                    partial(partition.log.remove_indexes_below, new_start)
                )
            await partitions.checkpoints.write_start_offsets()

    async def remove_deleted(self) -> None:
        """Remove the files of deleted segments and topics whose delay (file.delete.delay.ms) has passed."""
        now_ms = self._loop.now_ms()
        async for some in self._some_at_a_time():
            for partition in some:
                for deletion in partition.log.due_deletions(now_ms):
                    await self._services.node.world.work.run(partial(deletion.run, partition.disk))
        await self._services.logs.replicas.removal.remove_due()

    async def write_checkpoints(self) -> None:
        """Write checkpoints: the offset up to which each log is synced, and its log start offset."""
        await self._services.logs.replicas.checkpoints.write_checkpoints()

    async def expire_producers(self) -> None:
        limit_ms = self._settings[PRODUCER_ID_EXPIRATION_MS]
        async for partition in self._paced():
            partition.producers.expire(now_ms=self._loop.now_ms(), expiration_ms=limit_ms)

    async def compact(self) -> None:
        if self._settings[LOG_CLEANER_ENABLE]:
            await self._compactor.run()

    async def _close_idle(self) -> None:
        self._connections.close_idle()

    async def _measure_delay(self) -> None:
        asked_at = self._loop.time()
        await self._loop.sleep(0.01)
        self._delay_s.observe(max(0.0, self._loop.time() - asked_at - 0.01))

    async def _paced(self) -> AsyncIterator[Replica]:
        pacer = Pacer(self._loop, slice_ms=self._settings[PENSTOCK_LOOP_SLICE_MS])
        for partition in list(self._services.logs.replicas.all()):
            yield partition
            await pacer.pause()

    async def _some_at_a_time(self) -> AsyncIterator[list[Replica]]:
        """For chores of less than 1 µs a partition: with thousands of partitions, pauses would be most of the work."""
        pacer = Pacer(self._loop, slice_ms=self._settings[PENSTOCK_LOOP_SLICE_MS])
        partitions = list(self._services.logs.replicas.all())
        for begin in range(0, len(partitions), _AT_A_TIME):
            yield partitions[begin : begin + _AT_A_TIME]
            await pacer.pause()
