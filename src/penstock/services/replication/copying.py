"""What a leader's answer does to a follower's log: batches are appended as they are, a diverging end is cut off.

The leader has checked what producers sent; here the way is checked: framing, CRC, and that offsets go on. Appending is
done in slices. Whatever is awaited, the partition may have another leader afterwards: then the rest is void.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from penstock.base.errors import PenstockError, StorageError
from penstock.cluster.peer_requests.leader_fetch import LeaderData
from penstock.core.replication import EpochEnd, cut_offset
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


class CopyError(PenstockError):
    """What a leader sent cannot be appended; it is asked again later."""


class LeaderOffsets(NamedTuple):
    """Where a leader's log starts and ends."""

    start: int
    end: int


class ReplicaAppender:
    """Applies answers to partitions of this broker."""

    def __init__(self, world: World, replicas: ReplicaManager, *, slice_ms: int) -> None:
        self._world = world
        self._replicas = replicas
        self._slice_ms = slice_ms

    async def apply(self, follower: FollowerRole, data: LeaderData, is_void: Callable[[], bool]) -> bool:
        """Take what the answer has for a partition; False if not all of it could be taken, since the log was cut, or
        the answer is void by now. CopyError, StorageError: it cannot be taken at all."""
        partition = follower.replica
        if data.diverging is not None:
            await self._cut(partition, data.diverging)
            return False
        if data.records:
            await self._append(follower, data.records, is_void)
        if is_void():
            return False
        follower.follow(high_watermark=data.high_watermark, start_offset=data.log_start_offset)
        return True

    async def _append(self, follower: FollowerRole, records: memoryview, is_void: Callable[[], bool]) -> None:
        partition = follower.replica
        pacer = Pacer(self._world.loop, slice_ms=self._slice_ms)
        for batches in _slices(partition, records):
            if is_void():
                return
            first = batches[0].header.base_offset
            if first < partition.log.end_offset:
                await self._make_room_for_first(partition, first, batches[0].header.next_offset)
                if is_void():
                    return
            if not partition.log.may_have_gaps and _has_gap(batches, partition.log.end_offset):
                await self._expect_gaps(partition)
                if is_void():
                    return
            follower.copy(batches, now_ms=self._world.loop.now_ms())
            await pacer.pause()

    async def _expect_gaps(self, partition: Replica) -> None:
        """The leader's log was compacted: what is missing in it must not be taken for damage in this one."""
        try:
            await self._world.work.run(partition.log.mark_compacted)
        except OSError as error:
            if found_no_room(error):
                partition.found_no_room(str(error), size=1)
                raise NoRoomError(f"{partition}: no room for the mark of a compacted log: {error}") from error
            raise StorageError(f"{partition}: the mark of a compacted log cannot be left: {error}") from error

    async def _make_room_for_first(self, partition: Replica, first: int, next_offset: int) -> None:
        """The leader's log may start in the middle of a batch; a log that is empty then begins with all of it."""
        end_offset = partition.log.end_offset
        if partition.log.start_offset < end_offset or next_offset <= end_offset:
            raise CopyError(f"{partition} ends at offset {end_offset}, and was sent a batch from {first} on")
        await self._replicas.truncation.truncate_fully(partition, first)

    async def _cut(self, partition: Replica, diverging: EpochEnd) -> None:
        epochs, end_offset = partition.log.epochs, partition.log.end_offset
        known = epochs.end_offset(diverging.epoch, log_end_offset=end_offset)
        offset = cut_offset(diverging=diverging, own=EpochEnd(*known), end_offset=end_offset)
        await self._cut_to(
            partition, offset, f"leader epoch {diverging.epoch} ended at {diverging.end_offset} there"
        )

    async def _cut_to(self, partition: Replica, offset: int, why: str) -> None:
        before = partition.log.end_offset
        if partition.is_being_rewritten:
            raise CopyError(f"{partition} is being rewritten; its end can be cut off afterwards")
        tell = log.warning if offset < partition.high_watermark else log.info
        if offset < partition.log.start_offset:
            await self._replicas.truncation.truncate_fully(partition, offset)
        else:
            await self._replicas.truncation.truncate_to(partition, offset)
        tell(
            "%s: its log is longer than, or not the same as, that of its leader %d (%s): offsets %d to %d are dropped",
            partition,
            partition.state.leader,
            why,
            partition.log.end_offset,
            before,
        )

    async def meet(
        self, partition: Replica, ask: Callable[[], Awaitable[LeaderOffsets]], is_void: Callable[[], bool]
    ) -> None:
        """The leader has nothing where this log ends: go where it has."""
        leader = await ask()
        if is_void():
            return
        end_offset = partition.log.end_offset
        if leader.end < end_offset:
            await self._cut_to(partition, leader.end, f"it ends at {leader.end} there")
        elif leader.start > end_offset:
            if partition.is_being_rewritten:
                raise CopyError(f"{partition} is being rewritten; it can begin anew afterwards")
            log.warning(
                "%s: log end offset %d is below the log start offset of leader %d; restarting the log at %d",
                partition,
                end_offset,
                partition.state.leader,
                leader.start,
            )
            await self._replicas.truncation.truncate_fully(partition, leader.start)


def _slices(partition: Replica, records: memoryview) -> Iterator[list[PlacedBatch]]:
    """The batches of an answer, checked, some at a time; the last one may be cut short, and comes again."""
    batches: list[PlacedBatch] = []
    size, expected = 0, None
    try:
        for position, header in headers(records):
            if not crc_holds(records, position, header):
                raise CopyError(
                    f"{partition} was sent a batch at {header.base_offset} whose checksum is wrong"
                )
            if expected is not None and header.base_offset < expected:
                raise CopyError(f"{partition} was sent offset {header.base_offset} behind {expected - 1}")
            expected = header.next_offset
            batches.append(PlacedBatch(header, (records[position : position + header.size],)))
            size += header.size
            if size >= _SLICE_BYTES:
                yield batches
                batches, size = [], 0
    except CorruptBatchError as error:
        raise CopyError(f"{partition} was sent what is no batch: {error}") from error
    if batches:
        yield batches


def _has_gap(batches: list[PlacedBatch], end_offset: int) -> bool:
    """Whether an offset is missing behind the end of the log, or between the batches."""
    for header, _ in batches:
        if header.base_offset > end_offset:
            return True
        end_offset = header.next_offset
    return False
