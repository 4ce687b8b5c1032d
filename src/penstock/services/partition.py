"""One live partition: its log, its producers, its high watermark, and who waits for it."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.base.ids import TopicId
from penstock.cluster.metadata import PartitionState
from penstock.core.partition import NO_EPOCH, epoch_error
from penstock.core.producers import Duplicate, ProducerStates
from penstock.core.verification import Verification
from penstock.records.batch import NO_PRODUCER, TRANSACTIONAL, BatchHeader, place, read_header
from penstock.records.control import Marker, build_marker
from penstock.records.producer import AbortedTransaction
from penstock.services.flusher import Flusher
from penstock.services.intake import Intake, Refused, Taken
from penstock.services.waiting import FetchWaiters, OffsetWaiters
from penstock.storage.errors import CorruptionError, NoRoomError
from penstock.storage.log import Log, PlacedBatch, SyncPlan
from penstock.storage.lookup import FoundRecord
from penstock.world import Disk, World

log_of_partitions = logging.getLogger("penstock.partition")

NO_TIMESTAMP = -1
NO_OFFSET = -1


class Appended(NamedTuple):
    """Where a produced batch went, or, for a repeated one, where it had gone the first time."""

    base_offset: int
    next_offset: int
    log_append_time_ms: int
    log_start_offset: int


class TimestampedOffset(NamedTuple):
    """An answer of ListOffsets; -1 where there is none."""

    timestamp: int
    offset: int
    leader_epoch: int


NOT_FOUND = TimestampedOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)


class Partition:
    """The leader's side of one partition."""

    __slots__ = (
        "_flusher",
        "_hidden_bytes",
        "_waiting_for_offset",
        "_world",
        "disk",
        "fetches",
        "high_watermark",
        "index",
        "intake",
        "log",
        "producers",
        "state",
        "topic",
        "topic_id",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        world: World,
        flusher: Flusher,
        disk: Disk,
        *,
        topic: str,
        topic_id: TopicId,
        index: int,
        state: PartitionState,
        log: Log,
        producers: ProducerStates,
        intake: Intake,
    ) -> None:
        self._world = world
        self._flusher = flusher
        self.disk = disk
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.state = state
        self.log = log
        self.producers = producers
        self.intake = intake  # shared by the partitions of a topic; replaced when its configs change
        log.epochs.assign(state.leader_epoch, log.end_offset)
        self.high_watermark = log.recovery_point if intake.flush_messages == 1 else log.end_offset
        producers.transactions.settle(self.high_watermark)
        self.fetches = FetchWaiters()
        self.unflushed_since_ms: int | None = None
        self._waiting_for_offset = OffsetWaiters()
        self._hidden_bytes = 0  # appended, and not yet below the high watermark
        if self.high_watermark < log.end_offset:
            # What a crash of the process left in the page cache counts when the device has it, no sooner.
            self._hidden_bytes = log.size
            flusher.request(self)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def flushes_every_batch(self) -> bool:
        return self.intake.flush_messages == 1

    # Producing.

    def append(
        self,
        records: memoryview | None,
        *,
        now_ms: int,
        checked: Taken | Refused | None = None,
        verification: Verification | None = None,
    ) -> Appended | Refused | None:
        """Check, place and write what a producer sent. Runs on the loop, to the end.

        `verification` is what was taken before the coordinator was asked whether a transaction may begin here. None
        if the check takes too long for the loop; then ask the intake off it, and come again with what it said.
        """
        if self.log.failed:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, reached_log=False)
        taken = checked or self.intake.check(records, now_ms=now_ms)
        if taken is None or isinstance(taken, Refused):
            return taken
        header, batch = taken
        if header.producer_id > NO_PRODUCER:
            verdict = self.producers.check(header, verified=self._is_verified(header, verification))
            if isinstance(verdict, Duplicate):
                return self._answer_duplicate(verdict)
            if verdict is not ErrorCode.NONE:
                return Refused(verdict)
        return self._write(header, batch, now_ms)

    def _is_verified(self, header: BatchHeader, verification: Verification | None) -> bool:
        if not header.attributes & TRANSACTIONAL or not self.intake.verifies_transactions:
            return True
        return self.producers.verifications.holds(header.producer_id, verification)

    def append_marker(self, marker: Marker, *, version: int, now_ms: int) -> Appended | Refused:
        """Write the end of a transaction of that version."""
        if self.log.failed:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, reached_log=False)
        code = self.producers.check_marker(marker, version=version)
        if code is not ErrorCode.NONE:
            return Refused(code)
        batch = build_marker(marker, timestamp=now_ms)
        return self._write(read_header(batch), memoryview(batch), now_ms)

    def append_own(self, batch: bytes, *, leader_epoch: int, now_ms: int) -> Appended | Refused:
        """Write what a coordinator on this broker decided under `leader_epoch`."""
        if self.log.failed:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, reached_log=False)
        if leader_epoch != self.leader_epoch:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, reached_log=False)
        if len(batch) > self.intake.size_max:
            return Refused(ErrorCode.MESSAGE_TOO_LARGE, reached_log=False)
        return self._write(read_header(batch), memoryview(batch), now_ms)

    def _write(self, header: BatchHeader, batch: memoryview, now_ms: int) -> Appended | Refused:
        log = self.log
        base_offset = log.end_offset
        leader_epoch = self.state.leader_epoch
        placed = header.placed(base_offset=base_offset, leader_epoch=leader_epoch)
        buffers = place(batch, base_offset=base_offset, leader_epoch=leader_epoch)
        try:
            log.append([PlacedBatch(placed, buffers)], now_ms=now_ms)
        except NoRoomError as error:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error), reached_log=False)
        except StorageError:
            self.went_offline()
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, reached_log=False)
        self._hidden_bytes += header.size
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
        if log.end_offset - log.recovery_point >= self.intake.flush_messages:
            self._flusher.request(self)
        self.advance()
        stamp = header.max_timestamp if header.log_append_time else NO_TIMESTAMP
        return Appended(base_offset, log.end_offset, stamp, log.start_offset)

    def _answer_duplicate(self, duplicate: Duplicate) -> Appended:
        # The first attempt may still be waiting for its sync; the second then waits with it.
        return Appended(
            duplicate.base_offset, duplicate.last_offset + 1, duplicate.timestamp, self.log.start_offset
        )

    def in_sync_refusal(self) -> Refusal | None:
        """Why acks=all cannot be had now, or None."""
        present, needed = len(self.state.in_sync), self.intake.min_in_sync_replicas
        if present >= needed:
            return None
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self} has {present} in-sync replica(s); min.insync.replicas asks for {needed}",
        )

    # What is safe, and who waits for it.

    def advance(self) -> None:
        """Recompute the high watermark and wake whoever waited for it."""
        log = self.log
        reached = log.recovery_point if self.intake.flush_messages == 1 else log.end_offset
        if reached <= self.high_watermark:
            return
        self.high_watermark = reached
        self._waiting_for_offset.reached(reached)
        if self.producers.transactions.settle(reached):
            # A marker makes all of its transaction readable; how many bytes that are, nobody has counted.
            self._hidden_bytes += log.size
        # May be more than what became visible; a fetch that is woken too early looks, and waits again.
        self.fetches.bytes_came(self._hidden_bytes)
        if reached == log.end_offset:
            self._hidden_bytes = 0

    @property
    def last_stable_offset(self) -> int:
        """Up to where it is decided of every record whether it counts."""
        unstable = self.producers.transactions.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log.start_offset)

    def readable_offset(self, *, committed: bool) -> int:
        """Up to where a reader may read, by whether it reads committed records only."""
        return self.last_stable_offset if committed else self.high_watermark

    def has_aborted_from(self, offset: int) -> bool:
        """Whether a reader of committed records may have to leave something out from here on."""
        return self.log.has_aborted_from(offset)

    def aborted_transactions(self, *, from_offset: int, upto_offset: int) -> list[AbortedTransaction]:
        """What a reader of committed records has to leave out of a range of offsets."""
        return self.log.aborted_transactions(from_offset=from_offset, upto_offset=upto_offset)

    def wait_for(self, offset: int, *, timeout_ms: int) -> "asyncio.Future[ErrorCode]":
        """NONE once the high watermark has reached `offset`."""
        return self._waiting_for_offset.wait_for(offset, loop=self._world.loop, timeout_ms=timeout_ms)

    def sync_plan(self) -> SyncPlan | None:
        if self.log.failed:
            return None
        self.unflushed_since_ms = None
        try:
            return self.log.unsynced()
        except StorageError:
            self.went_offline()
            return None

    def run_sync(self, plan: SyncPlan) -> None:
        """Blocks; called off the loop."""
        plan.run(self.disk)

    def synced(self, plan: SyncPlan) -> None:
        self.log.synced(plan)
        self.advance()

    def sync_failed(self, error: OSError) -> None:
        if self.log.failed is None:  # else it was deleted meanwhile, with its files
            self.log.fail(f"sync failed: {error}")
            self.went_offline()

    def went_offline(self) -> None:
        """The disk failed under this partition: it serves nobody until the broker is started again."""
        log_of_partitions.error("%s is offline: %s", self, self.log.failed)
        self._waiting_for_offset.give_up(ErrorCode.KAFKA_STORAGE_ERROR)
        self.fetches.end_all()

    @property
    def in_memory(self) -> bool:
        """Whether the data is gone when the process ends."""
        return self.disk is not self._world.disk

    def close(self) -> None:
        """The partition is gone from this broker."""
        self._waiting_for_offset.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.fetches.end_all()

    # Reading.

    def epoch_error(self, client_epoch: int) -> ErrorCode:
        """Whether the client's idea of the leader epoch is ours."""
        return epoch_error(client_epoch, leader_epoch=self.state.leader_epoch)

    def fetch_error(self, client_epoch: int) -> ErrorCode:
        """Why nobody, or this client, can fetch here now."""
        if self.log.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return self.epoch_error(client_epoch)

    def read_cached(
        self, offset: int, max_bytes: int, *, upto_offset: int, whole_first_batch: bool
    ) -> Buffer | None:
        """What lies from `offset` on below `upto_offset`, if no device has to be waited for; else None."""
        return self.log.read(
            offset,
            max_bytes=max_bytes,
            upto_offset=upto_offset,
            whole_first_batch=whole_first_batch,
            cached_only=True,
        )

    async def read(self, offset: int, max_bytes: int, *, upto_offset: int, whole_first_batch: bool) -> Buffer:
        """As `read_cached`, through the work pool."""
        data = await self._world.work.run(
            lambda: self.log.read(
                offset,
                max_bytes=max_bytes,
                upto_offset=upto_offset,
                whole_first_batch=whole_first_batch,
                cached_only=False,
            )
        )
        assert data is not None
        return data

    async def offset_for_timestamp(
        self, timestamp: int, *, committed: bool = False
    ) -> TimestampedOffset | ErrorCode:
        """The first record at or after `timestamp` that a reader may read."""
        return await self._look_up(lambda: self.log.offset_for_timestamp(timestamp), committed=committed)

    async def offset_of_max_timestamp(self, *, committed: bool = False) -> TimestampedOffset | ErrorCode:
        return await self._look_up(self.log.offset_of_max_timestamp, committed=committed)

    async def _look_up(
        self, look: Callable[[], FoundRecord | None], *, committed: bool
    ) -> TimestampedOffset | ErrorCode:
        if self.log.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        cuts, first = self.log.cuts, self.log.segments[0]
        try:
            found = await self._world.work.run(look)
        except CorruptionError:
            return ErrorCode.CORRUPT_MESSAGE
        except (OSError, StorageError):
            if self.log.failed is None and self.log.cuts == cuts and self.log.segments[0] is not first:
                return await self._look_up(
                    look, committed=committed
                )  # retention was faster; what is left can be searched
            return ErrorCode.KAFKA_STORAGE_ERROR
        if found is None or found.offset >= self.readable_offset(committed=committed):
            return NOT_FOUND
        return TimestampedOffset(found.timestamp, found.offset, found.leader_epoch)

    def epoch_at(self, offset: int) -> int:
        return self.log.epochs.epoch_at(offset)

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch`, and the offset at which it ended."""
        if leader_epoch == self.leader_epoch:
            return leader_epoch, self.log.end_offset
        entry = self.log.epochs.end_offset(leader_epoch, log_end_offset=self.log.end_offset)
        return entry.epoch, entry.start_offset

    # Deleting.

    def has_expired_segments(self) -> bool:
        """Whether retention wants anything gone. May read old indexes; called off the loop."""
        return self.log.expired(self._world.loop.now_ms(), high_watermark=self.last_stable_offset) > 0

    def expire(self) -> int | None:
        """Move the start past what retention wants gone, but nothing of a transaction that is still open; the offset
        to delete below once that is written down.
        """
        try:
            return self.log.expire(self._world.loop.now_ms(), high_watermark=self.last_stable_offset)
        except StorageError:
            self.went_offline()
            return None

    def delete_segments_below(self, offset: int) -> None:
        """Delete what `expire` has moved the start past."""
        if self.log.failed is not None:
            return
        try:
            self.log.delete_segments_below(offset, now_ms=self._world.loop.now_ms())
        except StorageError:
            self.went_offline()

    def delete_records(self, before: int) -> int | ErrorCode:
        """Forget everything below `before` (-1: everything readable); the new start of the log."""
        if self.log.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self.intake.may_delete_records:
            return ErrorCode.POLICY_VIOLATION
        offset = self.high_watermark if before == NO_OFFSET else before
        if not 0 <= offset <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.log.advance_start_offset(offset)
        return self.log.start_offset
