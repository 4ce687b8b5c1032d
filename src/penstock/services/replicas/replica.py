"""One replica of a partition: its log, flushes, high watermark, and the requests that wait for it.

A replica has a role, as the metadata says: `leader` (`LeaderRole`) or `follower` (`FollowerRole`), and never both. What
only a leader or only a follower does is there. Changes of role run on the loop without a pause.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, StorageError
from penstock.base.ids import INTERNAL_TOPICS, TopicId, TopicPartition
from penstock.cluster.metadata import NO_LEADER, PartitionState
from penstock.core.rejected_sequences import PASSING
from penstock.core.replication import UNKNOWN
from penstock.core.request_checks import NO_EPOCH, epoch_error
from penstock.core.transaction_verification import Verifications
from penstock.records.batch import HEADER_SIZE, NO_PRODUCER, read_header
from penstock.records.producer import AbortedTransaction
from penstock.services.purgatory import ChangeSignal, FetchWaiters, HighWatermarkWaiters
from penstock.services.replicas.context import ReplicaContext, ReplicaStorage
from penstock.services.replicas.follower import FollowerRole
from penstock.services.replicas.leader import NO_OFFSET, NO_TIMESTAMP, LeaderRole
from penstock.services.topic_rules import TopicRules
from penstock.storage.errors import CorruptionError
from penstock.storage.log import SyncPlan
from penstock.storage.log_config import LogConfig
from penstock.storage.timestamp_lookup import FoundRecord
from penstock.world import Loop

log_of_partitions = logging.getLogger("penstock.partition")

_SMALL_FILE_BYTES = 4096  # the room to wait for after a small file could not be written


class TimestampedOffset(NamedTuple):
    """An offset that ListOffsets answers; -1 where there is none."""

    timestamp: int
    offset: int
    leader_epoch: int


NOT_FOUND = TimestampedOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)


class Replica:
    """One replica of a partition: the leader's, or a follower's."""

    __slots__ = (
        "_context",
        "_flushed",
        "_waiting_for_offset",
        "disk",
        "disk_space",
        "fetches",
        "flushes_every_batch",
        "follower",
        "follower_changes",
        "follower_fetches",
        "high_watermark",
        "index",
        "is_being_rewritten",
        "is_internal",
        "is_replicated",
        "leader",
        "log",
        "loop",
        "node_id",
        "producers",
        "sent_bytes",
        "state",
        "topic",
        "topic_id",
        "topic_partition",
        "topic_rules",
        "truncation",
        "unflushed_since_ms",
        "unread_bytes",
    )

    def __init__(
        self,
        context: ReplicaContext,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        state: PartitionState,
        storage: ReplicaStorage,
        topic_rules: TopicRules,
    ) -> None:
        self._context = context
        self.loop: Loop = context.world.loop
        self.node_id = context.node_id
        self.disk_space = context.disk_space
        self.topic_partition = topic_partition
        self.topic, self.index = topic_partition
        self.topic_id = topic_id
        self.is_internal = self.topic in INTERNAL_TOPICS  # only coordinators write to it
        self.state = state
        self.is_replicated = len(state.replicas) > 1
        log = self.log = storage.log
        self.producers = storage.producers
        self.disk = storage.disk
        self.topic_rules = topic_rules  # shared by the topic's replicas; replaced when its configs change
        self.flushes_every_batch = topic_rules.flush_messages == 1
        self.leader: LeaderRole | None = None
        self.follower: FollowerRole | None = None
        self.high_watermark = max(log.start_offset, min(storage.high_watermark, log.end_offset))
        self.fetches = FetchWaiters()  # of consumers: they wait for the high watermark
        self.follower_fetches = FetchWaiters()  # they wait for the log end offset or the high watermark
        # Notified when a follower's log start offset, the leader or the brokers change.
        self.follower_changes = ChangeSignal()
        self.sent_bytes = 0  # to consumers, since this broker started
        self.unflushed_since_ms: int | None = None
        self.truncation: asyncio.Future[None] | None = None  # while the log is being truncated
        self.is_being_rewritten = False  # by compaction or repair
        self._flushed: asyncio.Future[None] | None = None  # a follower waits for a flush
        self._waiting_for_offset = HighWatermarkWaiters()
        self.unread_bytes = log.size  # appended, and not yet below the high watermark
        self._take_role()
        if self.flushes_every_batch and log.recovery_point < log.end_offset:
            # What a crash of the process left in the page cache counts only once it is flushed.
            self.request_flush()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    @property
    def is_offline(self) -> bool:
        """Whether the log has failed: all requests are rejected until the broker restarts."""
        return self.log.failed is not None

    @property
    def log_start_offset(self) -> int:
        return self.log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    @property
    def in_memory(self) -> bool:
        """Whether the data is gone when the process ends."""
        return self.disk is not self._context.world.disk

    def now_ms(self) -> int:
        """Wall-clock time."""
        return self.loop.now_ms()

    def monotonic_ms(self) -> int:
        return int(self.loop.time() * 1000)

    # Roles.

    def change(self, state: PartitionState) -> None:
        """Apply a new state of the partition, from the metadata or from the controller's verdict on a proposal."""
        before = self.state
        if state.partition_epoch < before.partition_epoch or state == before:
            return  # the controller's verdict came first
        self.state = state
        self.is_replicated = len(state.replicas) > 1
        self.follower_changes.notify()
        leader = self.leader
        if leader is None or state.leader != self.node_id or state.leader_epoch != before.leader_epoch:
            self._take_role()
        else:
            leader.state_changed(state)

    def configure(self, topic_rules: TopicRules, config: LogConfig) -> None:
        """Apply new configs of the topic."""
        self.topic_rules = topic_rules
        self.flushes_every_batch = topic_rules.flush_messages == 1
        self.log.config = config
        if self.leader is not None:
            self.leader.rules_changed()

    def _take_role(self) -> None:
        if self.leader is not None:
            self.leader.end()
        if self.state.leader == self.node_id:
            self.follower = None
            self.leader = LeaderRole(self)
            self.leader.begin()
        else:
            self.leader = None
            self._become_follower()
        self.producers.transactions.settle(self.high_watermark)
        # Waiting fetches are answered, and look again in the new role.
        self.fetches.end_all()
        self.follower_fetches.end_all()

    def _become_follower(self) -> None:
        log = self.log
        if self.follower is None or self.follower.leader_epoch != self.state.leader_epoch:
            self.follower = FollowerRole(self)
        if not self.topic_rules.counts_majority or not 0 < log.start_offset == log.end_offset:
            # An epoch in which this broker led and appended nothing would look like one that the leader lost. With
            # majority acknowledgement, an empty log whose records were deleted has to know its last epoch.
            log.epochs.truncate_from(log.end_offset)
        self.producers.verifications = Verifications()
        self._waiting_for_offset.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def report(self) -> tuple[int, int] | ErrorCode:
        """The last leader epoch of this log, and its end offset, for the election of a leader by majority."""
        if self.log.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.state.leader != NO_LEADER:
            return ErrorCode.FENCED_LEADER_EPOCH
        # A replica that led and appended nothing has no more than the others.
        return self.log.epochs.latest_epoch if self.log.end_offset else UNKNOWN, self.log.end_offset

    def close(self) -> None:
        """Give up the role: the replica is deleted from this broker."""
        self.disk_space.forget(self)
        if self.leader is not None:
            self.leader.end()
        self.leader = self.follower = None
        self._waiting_for_offset.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.end_fetches()

    def note_rejection(self, records: memoryview | None, reason: ErrorCode, *, now_ms: int) -> None:
        """Note that a producer's batch was rejected. If the reason passes, its next batch will have a gap before it.

        Followers note it too: they may lead when the next batch comes.
        """
        if reason in PASSING and records is not None and len(records) >= HEADER_SIZE:
            header = read_header(records)
            if header.producer_id > NO_PRODUCER:
                self.producers.rejected_sequences.note(header, reason, now_ms=now_ms)

    # Notifications to replication.

    def report_caught_up(self) -> None:
        """A follower may join the ISR."""
        if self._context.listener is not None:
            self._context.listener.follower_caught_up(self)

    def report_cannot_write(self) -> None:
        """Another replica could lead instead of this one."""
        if self._context.listener is not None:
            self._context.listener.cannot_write(self)

    # The high watermark, and the requests that wait for it.

    def advance_high_watermark(self, reached: int) -> None:
        """Move the high watermark to `reached`, and wake the requests that wait for it."""
        log = self.log
        self.high_watermark = reached
        if self._waiting_for_offset.waiting:
            self._waiting_for_offset.reached(reached)
        if self.follower_fetches.waiting:
            self.follower_fetches.high_watermark_advanced()
        transactions = self.producers.transactions
        if transactions.unsettled and transactions.settle(reached):
            # A marker makes all of its transaction readable: an unknown number of bytes.
            self.unread_bytes += log.size
        if self.fetches.waiting:
            # May be more than became readable; a fetch that is woken too early waits again.
            self.fetches.bytes_appended(self.unread_bytes)
        if reached == log.end_offset:
            self.unread_bytes = 0

    @property
    def last_stable_offset(self) -> int:
        """Up to where every transaction is decided."""
        unstable = self.producers.transactions.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log.start_offset)

    def readable_offset(self, *, committed: bool) -> int:
        """Up to where a consumer may read, by whether it reads committed records only."""
        return self.last_stable_offset if committed else self.high_watermark

    def has_aborted_from(self, offset: int) -> bool:
        """Whether there are aborted transactions from here on."""
        return self.log.has_aborted_from(offset)

    def aborted_transactions(self, *, from_offset: int, upto_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap with a range of offsets."""
        return self.log.aborted_transactions(from_offset=from_offset, upto_offset=upto_offset)

    def wait_for(self, offset: int, *, timeout_ms: int) -> "asyncio.Future[ErrorCode]":
        """NONE once the high watermark has reached `offset`."""
        return self._waiting_for_offset.wait_for(offset, loop=self.loop, timeout_ms=timeout_ms)

    def give_up_waits(self, reason: ErrorCode) -> None:
        """Answer all that wait for the high watermark with an error."""
        self._waiting_for_offset.give_up(reason)

    def end_fetches(self) -> None:
        """Answer all fetches that wait, with what there is."""
        self._tell_flushed()
        self.fetches.end_all()
        self.follower_fetches.end_all()
        self.follower_changes.notify()

    # Flushing.

    def request_flush(self) -> None:
        """Have the flusher sync this log in its next round."""
        self._context.flusher.request(self)

    def sync_plan(self) -> SyncPlan | None:
        if self.log.failed or self.truncation is not None:  # a truncation requests a flush when it is done
            return None
        self.unflushed_since_ms = None
        try:
            plan = self.log.unsynced()
        except StorageError:
            self.went_offline()
            return None
        if self.log.epochs.changed:
            self.found_no_room("the leader epochs cannot be written", size=_SMALL_FILE_BYTES)
        return plan

    def run_sync(self, plan: SyncPlan) -> None:
        """Blocks; called off the loop."""
        plan.run(self.disk)

    def synced(self, plan: SyncPlan) -> None:
        self.log.synced(plan)
        if self.leader is not None:
            self.leader.advance_high_watermark()
        if self._flushed is not None:
            self._tell_flushed()

    def sync_failed(self, error: OSError) -> None:
        if self.log.failed is None:  # else it was deleted meanwhile, with its files
            self.log.fail(f"sync failed: {error}")
            self.went_offline()

    @property
    def is_flushed_as_needed(self) -> bool:
        """Whether a follower may acknowledge all that its log has: with `flush.messages=1`, once it is flushed."""
        return not self.flushes_every_batch or self.log.recovery_point >= self.log.end_offset

    async def flushed(self) -> None:
        """Return when `is_flushed_as_needed`, or when the log has failed."""
        while not self.is_flushed_as_needed and self.log.failed is None:
            if self._flushed is None:
                self._flushed = self.loop.create_future()
            await asyncio.wait([self._flushed])

    def _tell_flushed(self) -> None:
        future, self._flushed = self._flushed, None
        if future is not None:
            future.set_result(None)

    def truncated(self) -> None:
        """The log has been truncated to what the leader's has."""
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self.producers.transactions.settle(self.high_watermark)
        self.unread_bytes = self.log.size
        if not self.is_flushed_as_needed:
            self.request_flush()

    # Failures of the disk.

    def went_offline(self) -> None:
        """The disk failed under this log: reject all requests until the broker restarts."""
        log_of_partitions.error("%s is offline until this broker restarts: %s", self, self.log.failed)
        self.disk_space.forget(self)
        self._waiting_for_offset.give_up(ErrorCode.KAFKA_STORAGE_ERROR)
        self.end_fetches()
        self.report_cannot_write()

    def found_no_room(self, why: str, *, size: int) -> None:
        """Note that a write of `size` bytes failed because the disk is full."""
        self.disk_space.note_full(self, why, size=size)

    def found_room(self) -> None:
        """Note that the disk has room again: an append succeeded, or the probe found room."""
        if self.leader is not None:
            self.leader.lacks_room = False
        self.disk_space.note_room(self)
        if self.log.epochs.changed and self.log.failed is None:
            self.request_flush()

    # Reading.

    def epoch_error(self, client_epoch: int) -> ErrorCode:
        """Whether the client's leader epoch is the current one."""
        return epoch_error(client_epoch, leader_epoch=self.state.leader_epoch)

    def fetch_error(self, client_epoch: int) -> ErrorCode:
        """Why a client with this leader epoch cannot fetch; NONE if it can."""
        if self.log.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return self.epoch_error(client_epoch)

    def read_cached(
        self, offset: int, max_bytes: int, *, upto_offset: int, whole_first_batch: bool
    ) -> Buffer | None:
        """The batches from `offset` on below `upto_offset` if they are in the page cache; else None."""
        return self.log.read(
            offset,
            max_bytes=max_bytes,
            upto_offset=upto_offset,
            whole_first_batch=whole_first_batch,
            cached_only=True,
        )

    async def read(self, offset: int, max_bytes: int, *, upto_offset: int, whole_first_batch: bool) -> Buffer:
        """As `read_cached`, from the device if needed, in the work pool."""
        data = await self._context.world.work.run(
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
        """The first readable record at or after `timestamp`."""
        return await self._look_up(lambda: self.log.offset_for_timestamp(timestamp), committed=committed)

    async def offset_of_max_timestamp(self, *, committed: bool = False) -> TimestampedOffset | ErrorCode:
        return await self._look_up(self.log.offset_of_max_timestamp, committed=committed)

    async def _look_up(
        self, look: Callable[[], FoundRecord | None], *, committed: bool
    ) -> TimestampedOffset | ErrorCode:
        if self.log.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        truncations, first = self.log.truncations, self.log.segments[0]
        try:
            found = await self._context.world.work.run(look)
        except CorruptionError:
            return ErrorCode.CORRUPT_MESSAGE
        except (OSError, StorageError):
            if (
                self.log.failed is None
                and self.log.truncations == truncations
                and self.log.segments[0] is not first
            ):
                return await self._look_up(
                    look, committed=committed
                )  # retention has deleted a segment meanwhile; search the rest
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

    # Retention.

    def has_expired_segments(self) -> bool:
        """Whether retention would delete a segment. May read old indexes; called off the loop."""
        return (
            self.truncation is None
            and self.log.expired(self.loop.now_ms(), high_watermark=self.last_stable_offset) > 0
        )

    def expire(self) -> int | None:
        """Advance the log start offset past expired segments, up to the last stable offset; the offset to delete below
        once the log start offset is checkpointed.
        """
        if self.truncation is not None:
            return None
        try:
            return self.log.expire(self.loop.now_ms(), high_watermark=self.last_stable_offset)
        except StorageError:
            self.went_offline()
            return None

    def delete_segments_below(self, offset: int) -> None:
        """Delete the segments that `expire` has moved the log start offset past."""
        if self.log.failed is not None or self.truncation is not None:
            return
        try:
            self.log.delete_segments_below(offset, now_ms=self.loop.now_ms())
        except StorageError:
            self.went_offline()
