"""Applies a leader's fetch response to a follower's log: appends the batches unchanged, or truncates a diverging log.

The leader has validated the batches; the follower only checks the transport: framing, CRC, and contiguous offsets. It
appends in slices. During every await the partition may get another leader: the rest of the response is stale then, and
dropped.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from penstock.base.errors import PenstockError, StorageError
from penstock.cluster.peer_requests.leader_fetch import LeaderData
from penstock.core.replication import EpochEnd, truncation_offset
from penstock.records.batch import crc_holds, headers
from penstock.records.errors import CorruptBatchError
from penstock.services.replicas.follower import FollowerRole
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.storage.errors import NoRoomError
from penstock.storage.log import PlacedBatch
from penstock.world import World
from penstock.world.disk import found_no_room
from penstock.world.pacing import Pacer

log = logging.getLogger("penstock.replication")

_SLICE_BYTES: Final = 256 * 1024


class ReplicaAppendError(PenstockError):
    """The batches in a fetch response cannot be appended; the fetch is retried later."""


class LeaderOffsets(NamedTuple):
    """The log start offset and the log end offset of a leader."""

    start: int
    end: int


class ReplicaAppender:
    """Appends to, truncates and restarts the logs of this broker's followers."""

    def __init__(self, world: World, replicas: ReplicaManager, *, slice_ms: int) -> None:
        self._world = world
        self._replicas = replicas
        self._slice_ms = slice_ms

    async def apply(self, follower: FollowerRole, data: LeaderData, is_stale: Callable[[], bool]) -> bool:
        """Apply a leader's response to a partition; False if the log was truncated instead, or the response is stale.

        ReplicaAppendError, StorageError: it cannot be applied.
        """
        partition = follower.replica
        if data.diverging is not None:
            await self._truncate_diverging(partition, data.diverging)
            return False
        if data.records:
            await self._append(follower, data.records, is_stale)
        if is_stale():
            return False
        follower.follow(high_watermark=data.high_watermark, start_offset=data.log_start_offset)
        return True

    async def _append(
        self, follower: FollowerRole, records: memoryview, is_stale: Callable[[], bool]
    ) -> None:
        partition = follower.replica
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        for batches in _slices(partition, records):
            if is_stale():
                return
            first = batches[0].header.base_offset
            if first < partition.log.end_offset:
                await self._restart_in_batch(partition, first, batches[0].header.next_offset)
                if is_stale():
                    return
            if not partition.log.may_have_gaps and _has_gap(batches, partition.log.end_offset):
                await self._mark_compacted(partition)
                if is_stale():
                    return
            follower.copy(batches, now_ms=self._world.loop.now_ms())
            await pacer.pause()

    async def _mark_compacted(self, partition: Replica) -> None:
        """Mark the log as compacted, like the leader's: a gap in its offsets is not damage."""
        try:
            await self._world.work.run(partition.log.mark_compacted)
        except OSError as error:
            if found_no_room(error):
                partition.found_no_room(str(error), size=1)
                raise NoRoomError(f"{partition}: no room to mark the log as compacted: {error}") from error
            raise StorageError(f"{partition}: marking the log as compacted failed: {error}") from error

    async def _restart_in_batch(self, partition: Replica, first: int, next_offset: int) -> None:
        """Restart an empty log at a batch's base offset: the leader's log may start in the middle of a batch."""
        end_offset = partition.log.end_offset
        if partition.log.start_offset < end_offset or next_offset <= end_offset:
            raise ReplicaAppendError(
                f"{partition}: log end offset is {end_offset}, but the leader sent a batch at {first}"
            )
        await self._replicas.truncation.truncate_fully(partition, first)

    async def _truncate_diverging(self, partition: Replica, diverging: EpochEnd) -> None:
        epochs, end_offset = partition.log.epochs, partition.log.end_offset
        known = epochs.end_offset(diverging.epoch, log_end_offset=end_offset)
        offset = truncation_offset(diverging=diverging, own=EpochEnd(*known), end_offset=end_offset)
        await self._truncate_to(
            partition, offset, f"leader epoch {diverging.epoch} ended at {diverging.end_offset} there"
        )

    async def _truncate_to(self, partition: Replica, offset: int, why: str) -> None:
        before = partition.log.end_offset
        if partition.is_being_rewritten:
            raise ReplicaAppendError(
                f"{partition}: compaction or repair is in progress; truncating afterwards"
            )
        log_truncation = log.warning if offset < partition.high_watermark else log.info
        if offset < partition.log.start_offset:
            await self._replicas.truncation.truncate_fully(partition, offset)
        else:
            await self._replicas.truncation.truncate_to(partition, offset)
        log_truncation(
            "%s: truncated: the log diverges from that of leader %d (%s); removed offsets %d to %d",
            partition,
            partition.state.leader,
            why,
            partition.log.end_offset,
            before,
        )

    async def handle_offset_out_of_range(
        self, partition: Replica, ask: Callable[[], Awaitable[LeaderOffsets]], is_stale: Callable[[], bool]
    ) -> None:
        """Handle OFFSET_OUT_OF_RANGE: truncate to the leader's log end offset, or restart at its log start offset."""
        leader = await ask()
        if is_stale():
            return
        end_offset = partition.log.end_offset
        if leader.end < end_offset:
            await self._truncate_to(partition, leader.end, f"log end offset {leader.end} there")
        elif leader.start > end_offset:
            if partition.is_being_rewritten:
                raise ReplicaAppendError(
                    f"{partition}: compaction or repair is in progress; restarting the log afterwards"
                )
            log.warning(
                "%s: log end offset %d is below the log start offset of leader %d; restarting the log at %d",
                partition,
                end_offset,
                partition.state.leader,
                leader.start,
            )
            await self._replicas.truncation.truncate_fully(partition, leader.start)


def _slices(partition: Replica, records: memoryview) -> Iterator[list[PlacedBatch]]:
    """The checked batches of a response, in slices; an incomplete last batch is dropped, and fetched again."""
    batches: list[PlacedBatch] = []
    size, expected = 0, None
    try:
        for position, header in headers(records):
            if not crc_holds(records, position, header):
                raise ReplicaAppendError(
                    f"{partition}: the leader sent a batch at {header.base_offset} with a wrong CRC"
                )
            if expected is not None and header.base_offset < expected:
                raise ReplicaAppendError(
                    f"{partition}: the leader sent offset {header.base_offset} after {expected - 1}"
                )
            expected = header.next_offset
            batches.append(PlacedBatch(header, (records[position : position + header.size],)))
            size += header.size
            if size >= _SLICE_BYTES:
                yield batches
                batches, size = [], 0
    except CorruptBatchError as error:
        raise ReplicaAppendError(f"{partition}: the leader sent a malformed batch: {error}") from error
    if batches:
        yield batches


def _has_gap(batches: list[PlacedBatch], end_offset: int) -> bool:
    """Whether an offset is missing between the log end offset and the batches, or between the batches."""
    for header, _ in batches:
        if header.base_offset > end_offset:
            return True
        end_offset = header.next_offset
    return False
