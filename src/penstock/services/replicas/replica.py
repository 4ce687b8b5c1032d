"""One live partition: its log, its producers, its high watermark, its role, and who waits for it.

A broker leads a partition or follows its leader, as the metadata says. A leader takes what producers send, notes how
far its followers are, and moves the high watermark when all who count have something; a follower copies batches as they
lie in the leader's log, and believes the leader's high watermark. Changes of role run on the loop, to their end.

Where majorities count (`controller.rules.majorities`), a leader begins with a control record of its own, and a replica
of a partition without a leader reports what its log has.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.base.ids import INTERNAL_TOPICS, TopicId
from penstock.cluster.metadata import NO_LEADER, PartitionState
from penstock.core.partition import NO_EPOCH, epoch_error
from penstock.core.producer_state import Duplicate, ProducerStates
from penstock.core.rejected_sequences import PASSING
from penstock.core.replication import UNKNOWN, Leadership
from penstock.core.throttling import names_replica
from penstock.core.transaction_verification import Verification, Verifications
from penstock.records.batch import HEADER_SIZE, NO_PRODUCER, TRANSACTIONAL, BatchHeader, place, read_header
from penstock.records.control import Marker, build_leader_change, build_marker
from penstock.records.producer import AbortedTransaction
from penstock.services.flusher import Flusher
from penstock.services.room import Room
from penstock.services.topic_rules import AppendError, CheckedBatch, TopicRules
from penstock.services.waiting import Bell, FetchWaiters, OffsetWaiters
from penstock.storage.errors import CorruptionError, NoRoomError
from penstock.storage.log import Log, PlacedBatch, SyncPlan
from penstock.storage.timestamp_lookup import FoundRecord
from penstock.world import Disk, World

log_of_partitions = logging.getLogger("penstock.partition")

NO_TIMESTAMP = -1
NO_OFFSET = -1

_SMALL_FILE_BYTES = 4096  # what there has to be room for if a small file found none


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


def _nobody_listens(_partition: "Replica") -> None:
    """Nobody keeps in-sync sets."""


class Replica:
    """One replica of a partition: the leader's, or a follower's."""

    __slots__ = (
        "_flushed",
        "_flusher",
        "_hidden_bytes",
        "_is_replicated",
        "_node_id",
        "_waiting_for_offset",
        "_world",
        "cut",
        "disk",
        "fetches",
        "follower_fetches",
        "followers",
        "high_watermark",
        "index",
        "is_being_rewritten",
        "is_internal",
        "is_leader",
        "leadership",
        "log",
        "on_cannot_write",
        "on_may_join",
        "producers",
        "refuses_for_room",
        "room",
        "sent_bytes",
        "state",
        "topic",
        "topic_id",
        "topic_rules",
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
        high_watermark: int = 0,
        producers: ProducerStates,
        topic_rules: TopicRules,
        node_id: int,
        room: Room,
        on_may_join: "Callable[[Replica], None]" = _nobody_listens,
        on_cannot_write: "Callable[[Replica], None]" = _nobody_listens,
    ) -> None:
        """`high_watermark`: below it everything was committed when it was written down; the log may have less."""
        self._world = world
        self._flusher = flusher
        self.disk = disk
        self.topic = topic
        self.topic_id = topic_id
        self.is_internal = topic in INTERNAL_TOPICS  # written by coordinators alone
        self.index = index
        self.state = state
        self.log = log
        self.producers = producers
        self.topic_rules = (
            topic_rules  # shared by the partitions of a topic; replaced when its configs change
        )
        self.on_may_join = on_may_join  # a follower may be in sync now
        self.on_cannot_write = on_cannot_write  # another replica had better lead
        self.room = room
        self.refuses_for_room = False  # the last append of this leader found none
        self._node_id = node_id
        self.is_leader = False
        self.leadership: Leadership | None = None  # of a leader
        self._is_replicated = len(state.replicas) > 1
        self.high_watermark = max(log.start_offset, min(high_watermark, log.end_offset))
        self.fetches = FetchWaiters()  # wait for the high watermark
        self.follower_fetches = FetchWaiters()  # wait for the end of the log, and hear of the high watermark
        self.followers = Bell()  # rings when their logs start elsewhere, and when others lead or are alive
        self.sent_bytes = 0  # to consumers, since this broker started
        self.unflushed_since_ms: int | None = None
        self.cut: asyncio.Future[None] | None = None  # while the end of the log is being cut off
        self.is_being_rewritten = False
        self._flushed: asyncio.Future[None] | None = None  # a follower waits for a sync
        self._waiting_for_offset = OffsetWaiters()
        self._hidden_bytes = log.size  # appended, and not yet below the high watermark
        self._take_role()
        if topic_rules.flush_messages == 1 and log.recovery_point < log.end_offset:
            # What a crash of the process left in the page cache counts when the device has it, no sooner.
            flusher.request(self)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def flushes_every_batch(self) -> bool:
        return self.topic_rules.flush_messages == 1

    # Roles.

    def change(self, state: PartitionState) -> None:
        """The metadata, or the controller's answer to a proposal, says something new about this partition."""
        before = self.state
        if state.partition_epoch < before.partition_epoch or state == before:
            return  # the controller's answer was faster
        self.state = state
        self._is_replicated = len(state.replicas) > 1
        self.followers.ring()
        leadership = self.leadership
        if leadership is None or state.leader != self._node_id or state.leader_epoch != before.leader_epoch:
            self._take_role()
            return
        leadership.changed(state, now_ms=self._now_ms())
        if self.may_commit:
            self.advance()
        else:
            # Members left after something was appended. It may be committed yet; nobody knows when.
            self._waiting_for_offset.give_up(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self.follower_fetches.recheck_all()  # one that has left the set is to be looked at, until it is back

    def isr_state(self, isr: tuple[int, ...], partition_epoch: int) -> PartitionState:
        """The state with an in-sync set that the controller has agreed to, as it will be in the metadata."""
        elr = self.state.elr_after(isr, min_isr=self.topic_rules.min_insync_replicas)
        return self.state._replace(isr=isr, elr=elr, partition_epoch=partition_epoch)

    @property
    def may_commit(self) -> bool:
        """Whether the high watermark of this leader may move. While it may not, those that leave the in-sync set miss
        nothing, and stay eligible. Who is, the controller says; its `min.insync.replicas` may be another for a while.
        Where majorities count, they are all that does.
        """
        state = self.state
        if self.topic_rules.counts_majority:
            return True
        needed = state.needed_isr(self.topic_rules.min_insync_replicas)
        return len(state.isr) >= needed and not state.elr

    def _take_role(self) -> None:
        state, log = self.state, self.log
        self.is_leader = state.leader == self._node_id
        self.refuses_for_room = False
        if self.is_leader:
            log.epochs.assign(state.leader_epoch, log.end_offset)
            self.leadership = Leadership(
                state,
                node_id=self._node_id,
                start_offset=log.end_offset,
                now_ms=self._now_ms(),
                counts_majority=self.topic_rules.counts_majority,
            )
            if (
                self.topic_rules.counts_majority
                and self._is_replicated
                and log.end_offset
                and log.failed is None
            ):
                self._write_leader_change()
            self.advance()
        else:
            self.leadership = None
            if not self.topic_rules.counts_majority or not 0 < log.start_offset == log.end_offset:
                # An epoch under which this broker led and wrote nothing would look like one that the leader lost. Where
                # majorities count, a log of which everything was deleted has to know its last epoch all the same.
                log.epochs.truncate_from(log.end_offset)
            self.producers.verifications = Verifications()
            self._waiting_for_offset.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.producers.transactions.settle(self.high_watermark)
        # Whoever waits looks again, and finds what there is now.
        self.fetches.end_all()
        self.follower_fetches.end_all()

    def _write_leader_change(self) -> None:
        """Begin with a record of the own epoch: what is before it is safe when a majority has that."""
        now_ms = self._world.loop.now_ms()
        batch = build_leader_change(self._node_id, self.state.replicas, timestamp=now_ms)
        written = self._write(read_header(batch), memoryview(batch), now_ms)
        if isinstance(written, AppendError):
            log_of_partitions.warning(
                "%s: leader change record could not be written; earlier records become committed with the next append",
                self,
            )

    def report(self) -> tuple[int, int] | ErrorCode:
        """The last epoch of this log, and its end, of a partition that nobody leads."""
        if self.log.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.state.leader != NO_LEADER:
            return ErrorCode.FENCED_LEADER_EPOCH
        # Who led while nothing was ever written has no more than others.
        return self.log.epochs.latest_epoch if self.log.end_offset else UNKNOWN, self.log.end_offset

    def _now_ms(self) -> int:
        """Of the clock that does not jump."""
        return int(self._world.loop.time() * 1000)

    @property
    def leader_is_settled(self) -> bool:
        """Whether all that an earlier leader may have told anybody is below the high watermark."""
        return self.leadership is not None and self.high_watermark >= self.leadership.start_offset

    # The leader's side of replication.

    def follower_refusal(self, node_id: int, *, broker_epoch: int, current_epoch: int) -> ErrorCode:
        """Why a broker cannot fetch from here as a follower; `current_epoch` is that of its registration."""
        follower = None if self.leadership is None else self.leadership.follower(node_id)
        if follower is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if broker_epoch != UNKNOWN and broker_epoch < max(current_epoch, follower.broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # sent by an earlier life of that broker
        return ErrorCode.NONE

    def throttles(self, follower: int) -> bool:
        """Whether copying from this leader is slowed down for a follower: not if it is in sync."""
        return (
            bool(self.topic_rules.throttled_leaders)
            and follower not in self.state.isr
            and names_replica(self.topic_rules.throttled_leaders, partition=self.index, node_id=self._node_id)
        )

    @property
    def is_in_sync(self) -> bool:
        """Whether this broker's replica is in the in-sync set."""
        return self._node_id in self.state.isr

    @property
    def is_being_added(self) -> bool:
        return self._node_id in self.state.adding

    @property
    def is_throttled(self) -> bool:
        """Whether the topic's configs name this follower as one that copies slowly."""
        return names_replica(
            self.topic_rules.throttled_followers, partition=self.index, node_id=self._node_id
        )

    @property
    def cannot_write(self) -> bool:
        """Whether a leader has to refuse what producers send, where another replica might not."""
        return self.refuses_for_room or self.log.failed is not None

    def note_follower(self, node_id: int, *, offset: int, start_offset: int, broker_epoch: int) -> None:
        """A follower fetches from `offset` on: everything below is in its log."""
        leadership = self.leadership
        assert leadership is not None
        follower = leadership.follower(node_id)
        assert follower is not None
        moved, started_elsewhere = follower.end_offset != offset, follower.start_offset != start_offset
        follower.fetched(
            offset=offset,
            start_offset=start_offset,
            broker_epoch=broker_epoch,
            leader_end=self.log.end_offset,
            now_ms=self._now_ms(),
        )
        if moved:
            self.advance()
        if started_elsewhere:
            self.followers.ring()
        if leadership.may_join(node_id, high_watermark=self.high_watermark):
            self.on_may_join(self)

    def follower_asked(self, node_id: int, *, at_ms: int) -> None:
        """A follower that had everything asked for more, and nothing had come until then."""
        follower = None if self.leadership is None else self.leadership.follower(node_id)
        if follower is not None:
            follower.asked_again(at_ms)

    def has_everything(self, node_id: int, *, offset: int) -> bool:
        """Whether nothing is left to do for a follower that fetches from `offset` on, until something happens here."""
        return (
            self.log.failed is None
            and self.leadership is not None
            and offset == self.log.end_offset
            and node_id in self.leadership.agreed.isr
        )

    # The follower's side.

    def copy(self, batches: Sequence[PlacedBatch], *, now_ms: int) -> None:
        """Append what the leader's log has behind the end of this one. NoRoomError: there may be room later; any other
        StorageError: this replica is of no use any more."""
        assert not self.is_leader
        log = self.log
        size_before = log.size
        try:
            log.append(batches, now_ms=now_ms)
            if not log.epochs.changed:  # else they may be what finds no room
                self.room.found(self)
        except NoRoomError as error:
            self.found_no_room(str(error), size=sum(header.size for header, _ in batches))
            raise
        finally:
            self._hidden_bytes += log.size - size_before  # some may have come before there was no room
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
        if log.end_offset - log.recovery_point >= self.topic_rules.flush_messages:
            self._flusher.request(self)

    def follow(self, *, high_watermark: int, start_offset: int) -> None:
        """Believe what the leader says of its log, as far as this one goes."""
        end_offset = self.log.end_offset
        if start_offset > self.log.start_offset:
            self.log.advance_start_offset(min(start_offset, end_offset))
        reached = min(high_watermark, end_offset)
        if reached > self.high_watermark:
            self._move_high_watermark(reached)

    def was_cut(self) -> None:
        """The end of the log has been cut off, by whoever follows the leader."""
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self.producers.transactions.settle(self.high_watermark)
        self._hidden_bytes = self.log.size
        if not self.is_flushed_as_far_as_it_counts:
            self._flusher.request(self)

    @property
    def is_flushed_as_far_as_it_counts(self) -> bool:
        """Whether a follower may say that it has all that is in its log."""
        return self.topic_rules.flush_messages != 1 or self.log.recovery_point >= self.log.end_offset

    async def flushed(self) -> None:
        """Return when that is so, or when the partition is of no use any more."""
        while not self.is_flushed_as_far_as_it_counts and self.log.failed is None:
            if self._flushed is None:
                self._flushed = self._world.loop.create_future()
            await asyncio.wait([self._flushed])

    def _tell_flushed(self) -> None:
        future, self._flushed = self._flushed, None
        if future is not None:
            future.set_result(None)

    # Producing.

    def append(
        self,
        records: memoryview | None,
        *,
        now_ms: int,
        is_for_all: bool = False,
        checked: CheckedBatch | AppendError | None = None,
        verification: Verification | None = None,
    ) -> Appended | AppendError | None:
        """Check, place and write what a producer sent. Runs on the loop, to the end.

        `is_for_all`: all in-sync replicas shall have it, and be enough. `verification` is what was taken before the
        coordinator was asked whether a transaction may begin here. None if the check takes too long for the loop;
        then call `topic_rules.check` off the loop, and come again with its result.
        """
        outcome = self._check_and_write(
            records, now_ms=now_ms, is_for_all=is_for_all, checked=checked, verification=verification
        )
        if isinstance(outcome, AppendError):
            self.note_refusal(records, outcome.code, now_ms=now_ms)
        return outcome

    def note_refusal(self, records: memoryview | None, reason: ErrorCode, *, now_ms: int) -> None:
        """What a producer sent was not taken. If the reason passes, what it sends next has a gap before it then."""
        if reason in PASSING and records is not None and len(records) >= HEADER_SIZE:
            header = read_header(records)
            if header.producer_id > NO_PRODUCER:
                self.producers.rejected_sequences.note(header, reason, now_ms=now_ms)

    def _check_and_write(
        self,
        records: memoryview | None,
        *,
        now_ms: int,
        is_for_all: bool,
        checked: CheckedBatch | AppendError | None,
        verification: Verification | None,
    ) -> Appended | AppendError | None:
        leadership = self.leadership
        if self.log.failed or leadership is None or leadership.is_leaving:
            return self._refuse_append()
        if is_for_all:
            refusal = self.isr_refusal()
            if refusal is not None:
                return AppendError(*refusal, reached_log=False)
        taken = checked or self.topic_rules.check(records, now_ms=now_ms)
        if taken is None or isinstance(taken, AppendError):
            return taken
        header, batch = taken
        if header.producer_id > NO_PRODUCER:
            verified = self._is_verified(header, verification)
            verdict = self.producers.check(header, verified=verified, now_ms=now_ms)
            if isinstance(verdict, Duplicate):
                return self._answer_duplicate(verdict)
            if verdict is not ErrorCode.NONE:
                return AppendError(verdict, reached_log=verdict not in PASSING)
        return self._write(header, batch, now_ms)

    def _is_verified(self, header: BatchHeader, verification: Verification | None) -> bool:
        if not header.attributes & TRANSACTIONAL or not self.topic_rules.verifies_transactions:
            return True
        return self.producers.verifications.holds(header.producer_id, verification)

    def append_marker(self, marker: Marker, *, version: int, now_ms: int) -> Appended | AppendError:
        """Write the end of a transaction of that version."""
        if self.log.failed or not self.is_leader:
            return self._refuse_append()
        code = self.producers.check_marker(marker, version=version)
        if code is not ErrorCode.NONE:
            return AppendError(code)
        batch = build_marker(marker, timestamp=now_ms)
        return self._write(read_header(batch), memoryview(batch), now_ms)

    def append_own(self, batch: bytes, *, leader_epoch: int, now_ms: int) -> Appended | AppendError:
        """Write what a coordinator on this broker decided under `leader_epoch`."""
        if self.log.failed:
            return self._refuse_append()
        if leader_epoch != self.leader_epoch or not self.is_leader:
            return AppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER, reached_log=False)
        if len(batch) > self.topic_rules.size_max:
            return AppendError(ErrorCode.MESSAGE_TOO_LARGE, reached_log=False)
        return self._write(read_header(batch), memoryview(batch), now_ms)

    def _refuse_append(self) -> AppendError:
        leaves = self.leadership is not None and self.leadership.is_leaving
        cannot = leaves or self.log.failed is not None
        code = ErrorCode.KAFKA_STORAGE_ERROR if cannot else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return AppendError(code, reached_log=False)

    def _write(self, header: BatchHeader, batch: memoryview, now_ms: int) -> Appended | AppendError:
        log = self.log
        base_offset = log.end_offset
        leader_epoch = self.state.leader_epoch
        placed = place(batch, header, base_offset=base_offset, leader_epoch=leader_epoch)
        try:
            log.append((placed,), now_ms=now_ms)
        except NoRoomError as error:
            self.refuses_for_room = True
            self.found_no_room(str(error), size=header.size)
            self.on_cannot_write(self)
            return AppendError(ErrorCode.KAFKA_STORAGE_ERROR, str(error), reached_log=False)
        except StorageError:
            self.went_offline()
            return AppendError(ErrorCode.KAFKA_STORAGE_ERROR, reached_log=False)
        if self.refuses_for_room:
            self.found_room()
        self._hidden_bytes += header.size
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
        if log.end_offset - log.recovery_point >= self.topic_rules.flush_messages:
            self._flusher.request(self)
        if self._is_replicated:
            self.follower_fetches.bytes_came(header.size)
        self.advance()
        stamp = header.max_timestamp if header.log_append_time else NO_TIMESTAMP
        return Appended(base_offset, log.end_offset, stamp, log.start_offset)

    def _answer_duplicate(self, duplicate: Duplicate) -> Appended:
        # The first attempt may still be waiting for its sync; the second then waits with it.
        return Appended(
            duplicate.base_offset, duplicate.last_offset + 1, duplicate.timestamp, self.log.start_offset
        )

    def isr_refusal(self) -> Refusal | None:
        """Why acks=all cannot be had now, or None."""
        if self.may_commit:
            return None
        present, needed = len(self.state.isr), self.topic_rules.min_insync_replicas
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self} has {present} in-sync replica(s); min.insync.replicas asks for {needed}",
        )

    # What is safe, and who waits for it.

    def advance(self) -> None:
        """Recompute a leader's high watermark and wake whoever waited for it."""
        leadership = self.leadership
        if leadership is None or not self.may_commit:
            return
        reached = self.counted_offset
        if not leadership.alone:
            reached = leadership.high_watermark(reached)
        if reached > self.high_watermark:
            self._move_high_watermark(reached)

    @property
    def counted_offset(self) -> int:
        """Up to where this replica's own log counts."""
        return self.log.recovery_point if self.topic_rules.flush_messages == 1 else self.log.end_offset

    def _move_high_watermark(self, reached: int) -> None:
        log = self.log
        self.high_watermark = reached
        self._waiting_for_offset.reached(reached)
        if self._is_replicated:
            self.follower_fetches.high_watermark_moved()
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
        if self.log.failed or self.cut is not None:  # a cut asks again when it is done
            return None
        self.unflushed_since_ms = None
        try:
            plan = self.log.unsynced()
        except StorageError:
            self.went_offline()
            return None
        if self.log.epochs.changed:
            self.found_no_room("the leader epochs cannot be written down", size=_SMALL_FILE_BYTES)
        return plan

    def run_sync(self, plan: SyncPlan) -> None:
        """Blocks; called off the loop."""
        plan.run(self.disk)

    def synced(self, plan: SyncPlan) -> None:
        self.log.synced(plan)
        self.advance()
        if self._flushed is not None:
            self._tell_flushed()

    def sync_failed(self, error: OSError) -> None:
        if self.log.failed is None:  # else it was deleted meanwhile, with its files
            self.log.fail(f"sync failed: {error}")
            self.went_offline()

    def went_offline(self) -> None:
        """The disk failed under this partition: it serves nobody until the broker is started again."""
        log_of_partitions.error("%s is offline until this broker restarts: %s", self, self.log.failed)
        self.room.forget(self)
        self._waiting_for_offset.give_up(ErrorCode.KAFKA_STORAGE_ERROR)
        self.end_fetches()
        self.on_cannot_write(self)

    def found_no_room(self, why: str, *, size: int) -> None:
        """So many bytes found no room on the disk. That passes."""
        self.room.missing(self, why, size=size)

    def found_room(self) -> None:
        """There is room again, as an append or a look has found."""
        self.refuses_for_room = False
        self.room.found(self)
        if self.log.epochs.changed and self.log.failed is None:
            self._flusher.request(self)

    @property
    def in_memory(self) -> bool:
        """Whether the data is gone when the process ends."""
        return self.disk is not self._world.disk

    def close(self) -> None:
        """The partition is gone from this broker."""
        self.room.forget(self)
        self.is_leader = False
        self.leadership = None
        self._waiting_for_offset.give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.end_fetches()

    def end_fetches(self) -> None:
        """Something happened that whoever waits for records must hear of."""
        self._tell_flushed()
        self.fetches.end_all()
        self.follower_fetches.end_all()
        self.followers.ring()

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
        truncations, first = self.log.truncations, self.log.segments[0]
        try:
            found = await self._world.work.run(look)
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
        return (
            self.cut is None
            and self.log.expired(self._world.loop.now_ms(), high_watermark=self.last_stable_offset) > 0
        )

    def expire(self) -> int | None:
        """Move the start past what retention wants gone, but nothing of a transaction that is still open; the offset
        to delete below once that is written down.
        """
        if self.cut is not None:
            return None
        try:
            return self.log.expire(self._world.loop.now_ms(), high_watermark=self.last_stable_offset)
        except StorageError:
            self.went_offline()
            return None

    def delete_segments_below(self, offset: int) -> None:
        """Delete what `expire` has moved the start past."""
        if self.log.failed is not None or self.cut is not None:
            return
        try:
            self.log.delete_segments_below(offset, now_ms=self._world.loop.now_ms())
        except StorageError:
            self.went_offline()

    def delete_records(self, before: int) -> int | ErrorCode:
        """Forget everything below `before` (-1: everything readable); the new start of the log."""
        if self.log.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self.topic_rules.may_delete_records:
            return ErrorCode.POLICY_VIOLATION
        offset = self.high_watermark if before == NO_OFFSET else before
        if not 0 <= offset <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.log.advance_start_offset(offset)
        self.follower_fetches.end_all()  # their answers tell of the new start
        return self.log.start_offset

    def low_watermark(self, alive: Collection[int]) -> int:
        """Below which no replica that is alive shows anything, as far as the leader knows."""
        assert self.leadership is not None
        return self.leadership.low_watermark(self.log.start_offset, alive)
