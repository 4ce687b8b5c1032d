"""Appends transaction markers to partitions that this broker leads."""

import asyncio

from penstock.base.errors import ErrorCode
from penstock.base.ids import CONSUMER_OFFSETS, TopicPartition
from penstock.core.groups.shard import GroupShard
from penstock.records.control import Marker
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.topic_rules import AppendError
from penstock.world import World


class MarkerAppender:
    """Appends markers; those in `__consumer_offsets` are passed on to the group coordinator."""

    def __init__(self, world: World, replicas: ReplicaManager, groups: Coordinator[GroupShard]) -> None:
        self._world = world
        self._replicas = replicas
        self._groups = groups

    def append(
        self, marker: Marker, where: TopicPartition, *, version: int, timeout_ms: int
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """NONE once the high watermark has passed the marker, or why it has not; or a future for that."""
        leader = self._replicas.find_leader(*where)
        if isinstance(leader, ErrorCode):
            return leader
        refusal = leader.isr_refusal()
        if refusal is not None:
            return refusal.code
        ends_commits = where.topic == CONSUMER_OFFSETS
        if ends_commits:
            self._groups.flush_batch(where.partition)
        outcome = leader.append_marker(marker, version=version, now_ms=self._world.loop.now_ms())
        if isinstance(outcome, AppendError):
            return outcome.code
        if ends_commits:
            self._groups.marker_written(where.partition, marker, offset=outcome.base_offset)
        if leader.high_watermark >= outcome.next_offset:
            return ErrorCode.NONE
        return leader.wait_for(outcome.next_offset, timeout_ms=timeout_ms)
