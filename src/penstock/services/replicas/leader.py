"""The leader's role of a replica: one leader epoch in which this broker leads the partition.

Everything that only a leader does is here, so that it cannot be asked of a follower: appending what producers,
coordinators and transaction markers write, noting the followers' progress, and advancing the high watermark. What it
decides about followers and the ISR is in `core.replication.Leadership`.

A `LeaderRole` that is over (`is_over`) rejects every append. Where majorities count
(`controller.rules.majority_partitions`), it begins with a control record of its own.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.errors import ErrorCode, Refusal, StorageError
from penstock.cluster.metadata import PartitionState
from penstock.core.isr_proposals import Proposal
from penstock.core.producer_state import Duplicate
from penstock.core.rejected_sequences import PASSING
from penstock.core.replication import UNKNOWN, BrokerEpochs, Follower, Leadership
from penstock.core.throttling import names_replica
from penstock.core.transaction_verification import Verification
from penstock.records.batch import (
    LOG_APPEND_TIME,
    NO_PRODUCER,
    TRANSACTIONAL,
    BatchHeader,
    place,
    read_header,
)
from penstock.records.control import Marker, build_leader_change, build_marker
from penstock.records.producer import ProducerEntry
from penstock.services.topic_rules import AppendError, CheckedBatch
from penstock.storage.errors import NoRoomError

if TYPE_CHECKING:
    from penstock.services.replicas.replica import Replica

log_of_partitions = logging.getLogger("penstock.partition")

NO_TIMESTAMP = -1
NO_OFFSET = -1


class Appended(NamedTuple):
    """Where a produced batch is; for a duplicate, where the first attempt put it."""

    base_offset: int
    next_offset: int
    log_append_time_ms: int
    log_start_offset: int


class LeaderRole:
    """Leads a partition in one leader epoch."""

    __slots__ = ("is_over", "lacks_room", "leader_epoch", "leadership", "may_commit", "replica")

    def __init__(self, replica: "Replica") -> None:
        log = replica.log
        self.replica = replica
        self.leader_epoch = replica.state.leader_epoch
        self.is_over = False  # another leader, or another leader epoch, has followed
        self.lacks_room = False  # the last append found the disk full
        self.may_commit = self._may_commit()
        log.epochs.assign(self.leader_epoch, log.end_offset)
        self.leadership = Leadership(
            replica.state,
            node_id=replica.node_id,
            start_offset=log.end_offset,
            now_ms=replica.monotonic_ms(),
            counts_majority=replica.topic_rules.counts_majority,
        )

    def __str__(self) -> str:
        return str(self.replica)

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self.replica.log.end_offset

    @property
    def is_offline(self) -> bool:
        """Whether the log has failed: it rejects all appends until the broker restarts."""
        return self.replica.log.failed is not None

    @property
    def batch_size_max(self) -> int:
        """`max.message.bytes` of the topic."""
        return self.replica.topic_rules.size_max

    def active_producers(self) -> list[ProducerEntry]:
        return self.replica.producers.entries()

    # The epoch: its beginning, changes of its state, its end.

    def begin(self) -> None:
        """Start to lead. Called once this role is the replica's."""
        replica, log = self.replica, self.replica.log
        is_worth_a_record = replica.is_replicated and log.end_offset and log.failed is None
        if replica.topic_rules.counts_majority and is_worth_a_record:
            self._write_leader_change()
        self.advance_high_watermark()

    def end(self) -> None:
        """Another leader or leader epoch follows: appends are rejected from now on."""
        self.is_over = True
        self.may_commit = False

    def state_changed(self, state: PartitionState) -> None:
        """Apply a new state of the same leader epoch: another ISR, other replicas."""
        replica = self.replica
        self.leadership.changed(state, now_ms=replica.monotonic_ms())
        self.may_commit = self._may_commit()
        if self.may_commit:
            self.advance_high_watermark()
        else:
            # The ISR shrank below min.insync.replicas after the append. The batch may still be committed later.
            replica.give_up_waits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        replica.follower_fetches.recheck_all()  # a follower out of the ISR is not idle until it is back

    def rules_changed(self) -> None:
        """Apply new topic configs."""
        self.may_commit = self._may_commit()
        self.advance_high_watermark()

    def _may_commit(self) -> bool:
        """Whether the high watermark may advance.

        While it may not, replicas that leave the ISR miss nothing and stay in the ELR. The ELR is the controller's
        decision; its `min.insync.replicas` may differ from this broker's for a while. With majority acknowledgement
        only the majority counts.
        """
        state, rules = self.replica.state, self.replica.topic_rules
        if rules.counts_majority:
            return True
        return len(state.isr) >= state.needed_isr(rules.min_insync_replicas) and not state.elr

    def _write_leader_change(self) -> None:
        """Begin with a record of this epoch: earlier records are committed once a majority has it."""
        replica = self.replica
        now_ms = replica.now_ms()
        batch = build_leader_change(replica.node_id, replica.state.replicas, timestamp=now_ms)
        written = self._write(read_header(batch), memoryview(batch), now_ms)
        if isinstance(written, AppendError):
            log_of_partitions.warning(
                "%s: leader change record could not be written; earlier records become committed with the next append",
                self,
            )

    @property
    def is_settled(self) -> bool:
        """Whether everything that an earlier leader may have committed is below the high watermark."""
        return not self.is_over and self.replica.high_watermark >= self.leadership.start_offset

    # Appending.

    def append(
        self,
        records: memoryview | None,
        *,
        now_ms: int,
        is_for_all: bool = False,
        checked: CheckedBatch | AppendError | None = None,
        verification: Verification | None = None,
    ) -> Appended | AppendError | None:
        """Check a producer's batch, assign its offsets and write it. Runs on the loop without a pause.

        `is_for_all` (acks=all): reject it unless the ISR is large enough. `verification` was taken before the
        transaction coordinator was asked whether a transaction may begin here. None if the check takes too long for
        the loop: then call `topic_rules.check` off the loop, and append again with its result as `checked`.
        """
        replica = self.replica
        if self.is_over or replica.log.failed is not None or self.leadership.is_leaving:
            return self._reject(records, self._unavailable(), now_ms)
        if is_for_all and not self.may_commit:
            return self._reject(records, AppendError(*self._isr_too_small(), reached_log=False), now_ms)
        taken = checked or replica.topic_rules.check(records, now_ms=now_ms)
        if taken is None:
            return None
        if isinstance(taken, AppendError):
            return self._reject(records, taken, now_ms)
        header, batch = taken
        if header.producer_id > NO_PRODUCER:
            verified = not header.attributes & TRANSACTIONAL or self._is_verified(header, verification)
            verdict = replica.producers.check(header, verified=verified, now_ms=now_ms)
            if isinstance(verdict, Duplicate):
                # The first attempt may still wait for the high watermark; then this one waits for it too.
                start_offset = replica.log.start_offset
                return Appended(verdict.base_offset, verdict.last_offset + 1, verdict.timestamp, start_offset)
            if verdict is not ErrorCode.NONE:
                error = AppendError(verdict, reached_log=verdict not in PASSING)
                return self._reject(records, error, now_ms)
        outcome = self._write(header, batch, now_ms)
        if isinstance(outcome, AppendError):
            return self._reject(records, outcome, now_ms)
        return outcome

    def _reject(self, records: memoryview | None, error: AppendError, now_ms: int) -> AppendError:
        self.replica.note_rejection(records, error.code, now_ms=now_ms)
        return error

    def _is_verified(self, header: BatchHeader, verification: Verification | None) -> bool:
        replica = self.replica
        if not replica.topic_rules.verifies_transactions:
            return True
        return replica.producers.verifications.holds(header.producer_id, verification)

    def append_marker(self, marker: Marker, *, version: int, now_ms: int) -> Appended | AppendError:
        """Write the end of a transaction of that transaction version."""
        if self.is_over or self.is_offline:
            return self._unavailable()
        code = self.replica.producers.check_marker(marker, version=version)
        if code is not ErrorCode.NONE:
            return AppendError(code)
        batch = build_marker(marker, timestamp=now_ms)
        return self._write(read_header(batch), memoryview(batch), now_ms)

    def append_own(self, batch: bytes, *, now_ms: int) -> Appended | AppendError:
        """Write what a coordinator on this broker has decided under this leader epoch."""
        if self.is_over or self.replica.log.failed is not None:
            return self._unavailable()
        if len(batch) > self.replica.topic_rules.size_max:
            return AppendError(ErrorCode.MESSAGE_TOO_LARGE, reached_log=False)
        return self._write(read_header(batch), memoryview(batch), now_ms)

    def _unavailable(self) -> AppendError:
        cannot_write = self.is_offline or (not self.is_over and self.leadership.is_leaving)
        code = ErrorCode.KAFKA_STORAGE_ERROR if cannot_write else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return AppendError(code, reached_log=False)

    def _write(self, header: BatchHeader, batch: memoryview, now_ms: int) -> Appended | AppendError:
        replica = self.replica
        log = replica.log
        base_offset, size_before = log.end_offset, log.size
        leader_epoch = self.leader_epoch
        placed = place(batch, header, base_offset=base_offset, leader_epoch=leader_epoch)
        try:
            log.append((placed,), now_ms=now_ms)
        except NoRoomError as error:
            self.lacks_room = True
            replica.found_no_room(str(error), size=header.size)
            replica.report_cannot_write()
            return AppendError(ErrorCode.KAFKA_STORAGE_ERROR, str(error), reached_log=False)
        except StorageError:
            replica.went_offline()
            return AppendError(ErrorCode.KAFKA_STORAGE_ERROR, reached_log=False)
        if self.lacks_room:
            replica.found_room()
        size, end_offset = log.size - size_before, log.end_offset
        replica.unread_bytes += size
        if replica.unflushed_since_ms is None:
            replica.unflushed_since_ms = now_ms
        if end_offset - log.recovery_point >= replica.topic_rules.flush_messages:
            replica.request_flush()
        if replica.follower_fetches.waiting:
            replica.follower_fetches.bytes_appended(size)
        self.advance_high_watermark()
        stamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else NO_TIMESTAMP
        return Appended(base_offset, end_offset, stamp, log.start_offset)

    def isr_refusal(self) -> Refusal | None:
        """Why acks=all is rejected now: the ISR is smaller than min.insync.replicas. None if it is not."""
        return None if self.may_commit or self.is_over else self._isr_too_small()

    def _isr_too_small(self) -> Refusal:
        present, needed = len(self.replica.state.isr), self.replica.topic_rules.min_insync_replicas
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self} has {present} in-sync replica(s); min.insync.replicas asks for {needed}",
        )

    @property
    def cannot_write(self) -> bool:
        """Whether this leader rejects produce requests that another replica could take."""
        return self.lacks_room or self.is_offline

    # Committing.

    @property
    def own_offset(self) -> int:
        """Up to where the leader's own log counts: its flushed end, or its end."""
        replica = self.replica
        return replica.log.recovery_point if replica.flushes_every_batch else replica.log.end_offset

    def advance_high_watermark(self) -> None:
        """Recompute the high watermark and wake the requests that wait for it."""
        if not self.may_commit:
            return
        replica, leadership = self.replica, self.leadership
        reached = replica.log.recovery_point if replica.flushes_every_batch else replica.log.end_offset
        if not leadership.alone:
            reached = leadership.compute_high_watermark(reached)
        if reached > replica.high_watermark:
            replica.advance_high_watermark(reached)

    def wait_for(self, offset: int, *, timeout_ms: int) -> "asyncio.Future[ErrorCode]":
        """NONE once the high watermark has reached `offset`."""
        return self.replica.wait_for(offset, timeout_ms=timeout_ms)

    # Followers.

    def follower(self, node_id: int) -> Follower | None:
        """What this leader knows of a follower; None if the broker is no other replica."""
        return self.leadership.follower(node_id)

    def follower_refusal(self, node_id: int, *, broker_epoch: int, current_epoch: int) -> ErrorCode:
        """Why a broker cannot fetch as a follower; `current_epoch` is that of its registration."""
        follower = self.leadership.follower(node_id)
        if follower is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if broker_epoch != UNKNOWN and broker_epoch < max(current_epoch, follower.broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # sent before that broker's restart
        return ErrorCode.NONE

    def throttles(self, node_id: int) -> bool:
        """Whether this follower's fetches are throttled: not if it is in the ISR."""
        replica = self.replica
        named = replica.topic_rules.throttled_leaders
        return (
            bool(named)
            and node_id not in replica.state.isr
            and names_replica(named, partition=replica.index, node_id=replica.node_id)
        )

    def note_follower(self, node_id: int, *, offset: int, start_offset: int, broker_epoch: int) -> None:
        """Note that a follower fetches from `offset` on: its log has everything below."""
        replica = self.replica
        follower = self.leadership.follower(node_id)
        assert follower is not None
        moved, started_elsewhere = follower.end_offset != offset, follower.start_offset != start_offset
        follower.fetched(
            offset=offset,
            start_offset=start_offset,
            broker_epoch=broker_epoch,
            leader_end=replica.log.end_offset,
            now_ms=replica.monotonic_ms(),
        )
        if moved:
            self.advance_high_watermark()
        if started_elsewhere:
            replica.follower_changes.notify()
        if self.leadership.may_join(node_id, high_watermark=replica.high_watermark):
            replica.report_caught_up()

    def follower_fetched_again(self, node_id: int, *, at_ms: int) -> None:
        """Note that a caught-up follower fetched again before anything was appended."""
        follower = self.leadership.follower(node_id)
        if follower is not None:
            follower.fetched_again(at_ms)

    def has_everything(self, node_id: int, *, offset: int) -> bool:
        """Whether a follower that fetches from `offset` on is in the ISR and at the log end offset."""
        log = self.replica.log
        return log.failed is None and offset == log.end_offset and node_id in self.leadership.agreed.isr

    async def followers_changed(self, *, timeout_s: float) -> None:
        """Return when a follower's log start offset, the brokers or the leader may have changed, or in time."""
        await self.replica.follower_changes.wait(self.replica.loop, timeout_s=timeout_s)

    # The ISR.

    def propose_isr(
        self, *, lag_max_ms: int, broker_epochs: BrokerEpochs, resigns: bool = False
    ) -> Proposal | None:
        """The ISR to ask the controller for, if it differs and no proposal is pending; it is pending then."""
        replica = self.replica
        return self.leadership.propose(
            high_watermark=replica.high_watermark,
            leader_end=replica.log.end_offset,
            now_ms=replica.monotonic_ms(),
            lag_max_ms=lag_max_ms,
            broker_epochs=broker_epochs,
            resigns=resigns,
            own_offset=self.own_offset,
        )

    def isr_state(self, isr: tuple[int, ...], partition_epoch: int) -> PartitionState:
        """The state with an ISR that the controller has accepted, as the metadata will have it."""
        state = self.replica.state
        elr = state.elr_after(isr, min_isr=self.replica.topic_rules.min_insync_replicas)
        return state._replace(isr=isr, elr=elr, partition_epoch=partition_epoch)

    # Deleting records.

    def delete_records(self, before: int) -> int | ErrorCode:
        """Advance the log start offset to `before` (-1: to the high watermark); the new log start offset."""
        replica = self.replica
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not replica.topic_rules.may_delete_records:
            return ErrorCode.POLICY_VIOLATION
        offset = replica.high_watermark if before == NO_OFFSET else before
        if not 0 <= offset <= replica.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        replica.log.advance_start_offset(offset)
        replica.follower_fetches.end_all()  # their responses carry the new log start offset
        return replica.log.start_offset

    def low_watermark(self, alive: Collection[int]) -> int:
        """The lowest log start offset of the replicas that are alive, as far as this leader knows."""
        return self.leadership.low_watermark(self.replica.log.start_offset, alive)
