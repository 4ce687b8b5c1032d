"""Repairs damaged logs: batches with a wrong CRC on this broker's disk are replaced by copies from another replica.

Leaders and followers do the same. A batch of another replica is identical if it has the same offsets and leader epoch:
an epoch has one leader, which assigns an offset once. It is fetched as by a consumer: below the high watermark any
replica answers, and the fetch does not count as this follower's progress. Its CRC has to be right. Then the segment is
rewritten with it (`storage.segment_repair`). Nothing is truncated before. If no replica has the batch, the repair is
retried, at growing intervals.
"""

import asyncio
import logging
from functools import partial
from typing import Final

from penstock.base.errors import ErrorCode, PenstockError
from penstock.client.connection import Connection
from penstock.client.errors import ClientError
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.peer_requests.replica_read import read_records
from penstock.cluster.peers import Peers
from penstock.records.batch import crc_holds, headers
from penstock.records.errors import CorruptBatchError
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.storage.damage import Damage
from penstock.storage.damage_handling import examine
from penstock.storage.segment import Segment
from penstock.storage.segment_repair import repair_segment
from penstock.world import World
from penstock.world.tasks import Tasks

log = logging.getLogger("penstock.replication")

_FIRST_WAIT_S: Final = 0.5  # doubles with every further attempt
_LONGEST_WAIT_S: Final = 60.0
_FETCH_BYTES: Final = 1 << 20
_DAMAGE_BYTES_MAX: Final = 64 << 20  # of contiguous damaged batches; they are held in memory


class LogRepairError(PenstockError):
    """The damaged batches cannot be replaced now."""


class LogRepairer:
    """Repairs the damaged logs of this broker, one after the other."""

    def __init__(
        self, world: World, image: MetadataImage, replicas: ReplicaManager, peers: Peers, *, node_id: int
    ) -> None:
        self._world = world
        self._loop = world.loop
        self._image = image
        self._replicas = replicas
        self._peers = peers
        self._node_id = node_id
        self._due: dict[Replica, float] = {}  # and how long to wait if the repair fails
        self._has_work = asyncio.Event()
        self._tasks = Tasks(world.loop)

    def start(self) -> None:
        self._tasks.start("log repair", self._run())

    async def stop(self) -> None:
        await self._tasks.stop()

    def repair_if_damaged(self, partition: Replica) -> None:
        """Repair the log of a partition soon, if it has damage and there are other replicas."""
        if _damaged_segments(partition) and len(partition.state.replicas) > 1:
            self._queue(partition, _FIRST_WAIT_S)

    def _queue(self, partition: Replica, wait_s: float) -> None:
        self._due.setdefault(partition, wait_s)
        self._has_work.set()

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            due, self._due = self._due, {}
            for partition, wait_s in due.items():
                try:
                    await self._repair(partition)
                except (LogRepairError, ClientError, OSError, PenstockError) as error:
                    write = log.warning if wait_s == _FIRST_WAIT_S else log.debug
                    write("%s: repairing the log failed: %s; retrying", partition, error)
                    longer_s = min(2 * wait_s, _LONGEST_WAIT_S)
                    self._loop.call_later(wait_s, self._queue, partition, longer_s)

    async def _repair(self, partition: Replica) -> None:
        """Repair all damaged segments of a log, or raise why that fails."""
        for segment in _damaged_segments(partition):
            replica_log = partition.log
            if replica_log.failed is not None:
                return  # deleted or offline
            if partition.truncation is not None or partition.is_being_rewritten:
                raise LogRepairError("compaction, truncation or another repair is in progress")
            partition.is_being_rewritten = True
            try:
                if segment is replica_log.segments[-1]:
                    replica_log.roll(now_ms=self._loop.now_ms())
                await self._repair_segment(partition, segment)
            finally:
                partition.is_being_rewritten = False

    async def _repair_segment(self, partition: Replica, segment: Segment) -> None:
        await self._world.work.run(partial(examine, partition.log, segment))
        sound = {damage: await self._copy_from_replicas(partition, damage) for damage in segment.damage}
        is_repaired = await repair_segment(
            partition.log,
            partition.disk,
            segment,
            sound,
            work=self._world.work,
            now_ms=self._loop.now_ms(),
        )
        if not is_repaired:
            raise LogRepairError("the log has changed meanwhile")
        for damage in sound:
            log.warning(
                "%s: repaired damaged offsets %d to %d from another replica",
                partition,
                damage.first_offset,
                damage.next_offset - 1,
            )

    # Copies of the damaged batches.

    async def _copy_from_replicas(self, partition: Replica, damage: Damage) -> bytes:
        """The batches of the damaged offsets, as another replica has them."""
        reasons = []
        for node_id in self._other_replicas(partition):
            try:
                connection = await self._peers.connect(node_id)
                try:
                    return await self._fetch(connection, partition, damage)
                finally:
                    connection.close()
            except (ClientError, LogRepairError) as error:
                reasons.append(f"broker {node_id}: {error}")
        raise LogRepairError("; ".join(reasons) or "no other replica is alive")

    def _other_replicas(self, partition: Replica) -> list[int]:
        """The other replicas that are alive: the leader first, then the ISR."""
        state, brokers = partition.state, self._image.brokers
        ordered = dict.fromkeys((state.leader, *state.isr, *state.replicas))
        return [
            id_
            for id_ in ordered
            if id_ in state.replicas and id_ != self._node_id and id_ in brokers and not brokers[id_].fenced
        ]

    async def _fetch(self, connection: Connection, partition: Replica, damage: Damage) -> bytes:
        found = bytearray()
        offset = damage.first_offset
        while offset < damage.next_offset:
            records = await read_records(
                connection, partition.topic_id, partition.index, offset=offset, max_bytes=_FETCH_BYTES
            )
            if isinstance(records, ErrorCode):
                raise LogRepairError(f"it answers {records.name} for offset {offset}")
            before = offset
            offset = self._add_batches(found, partition, damage, offset, records)
            if offset == before or len(found) > _DAMAGE_BYTES_MAX:
                raise LogRepairError(f"it has no batch at offset {offset}")
        return bytes(found)

    def _add_batches(
        self, found: bytearray, partition: Replica, damage: Damage, offset: int, records: memoryview
    ) -> int:
        """Add the batches of a response that replace damaged ones; the next offset to fetch."""
        may_have_gaps = partition.log.config.compact or partition.log.may_have_gaps
        try:
            for at, header in headers(records):
                if header.last_offset < damage.first_offset:
                    continue
                if header.base_offset >= damage.next_offset and may_have_gaps:
                    return damage.next_offset  # compaction has removed the rest of these offsets
                is_next = header.base_offset == offset or (may_have_gaps and header.base_offset >= offset)
                if not is_next or header.next_offset > damage.next_offset:
                    raise LogRepairError(f"its batch at {header.base_offset} has other offsets")
                if not crc_holds(records, at, header):
                    raise LogRepairError(f"its batch at {header.base_offset} is damaged as well")
                if header.leader_epoch != partition.epoch_at(header.base_offset):
                    raise LogRepairError(f"its batch at {header.base_offset} is of another leader epoch")
                found += records[at : at + header.size]
                offset = header.next_offset
                if offset >= damage.next_offset:
                    break
        except CorruptBatchError as error:
            raise LogRepairError(f"it sent a malformed batch: {error}") from error
        return offset


def _damaged_segments(partition: Replica) -> list[Segment]:
    return [segment for segment in partition.log.segments if segment.damage]
