"""Consumers' fetches: read several partitions, waiting until enough is there.

A consumer reads up to the high watermark; with isolation level read_committed up to the last stable offset, and it gets
a list of the aborted transactions among its records. Records are bytes as they lie on disk. Any replica serves
consumers; one that names its rack may be sent to a replica in that rack (KIP-392, `replica.selector.class`).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.base.cluster_settings import REPLICA_SELECTOR_CLASS
from penstock.base.errors import ErrorCode
from penstock.cluster.metadata import MetadataImage
from penstock.core.fetch_sessions import FetchTarget, PartitionKey
from penstock.records.batch import headers
from penstock.records.errors import CorruptBatchError
from penstock.records.producer import AbortedTransaction
from penstock.services.configs import Configs
from penstock.services.fetching.delayed_fetch import DelayedFetch
from penstock.services.fetching.partition_read import NO_REPLICA, FetchBounds, PartitionRead
from penstock.services.purgatory import FetchWaiters
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.world import World

_RACK_AWARE: Final = "RackAwareReplicaSelector"


class ConsumerOptions(NamedTuple):
    """How a consumer reads."""

    committed: bool = False  # isolation level read_committed
    rack: str = ""  # of a consumer that knows how to fetch from a preferred read replica
    leader_only: bool = False  # the consumer does not know that other replicas may answer


class ConsumerFetches:
    """Serves the fetches of consumers on one broker."""

    def __init__(
        self, world: World, image: MetadataImage, replicas: ReplicaManager, configs: Configs, *, node_id: int
    ) -> None:
        self.loop = world.loop
        self.replicas = replicas
        self.configs = configs
        self._image = image
        self._node_id = node_id

    def fetch(
        self,
        targets: Sequence[tuple[PartitionKey, FetchTarget]],
        limits: FetchBounds,
        options: ConsumerOptions,
    ) -> "list[PartitionRead] | ConsumerFetch":
        """Read partitions, by name or id, in this order; what came of each, or a fetch to await for it."""
        fetch = ConsumerFetch(self, targets, limits, options)
        return fetch.complete() if fetch.is_complete_at_once() else fetch

    @property
    def selects_by_rack(self) -> bool:
        return (self.configs.broker[REPLICA_SELECTOR_CLASS] or "").endswith(_RACK_AWARE)

    def preferred_read_replica(self, partition: Replica, *, offset: int, rack: str) -> int:
        """The replica in the consumer's rack that has come furthest, if there is one and it is not this one."""
        leader, brokers = partition.leader, self._image.brokers
        own = brokers.get(self._node_id)
        if leader is None or (own is not None and own.rack == rack):
            return NO_REPLICA
        best = (-1, NO_REPLICA)
        for node_id in partition.state.isr:
            broker, follower = brokers.get(node_id), leader.follower(node_id)
            if broker is None or broker.fenced or broker.rack != rack or follower is None:
                continue
            if follower.start_offset <= offset <= follower.end_offset:
                best = max(best, (follower.end_offset, node_id))
        return best[1]


class ConsumerFetch(DelayedFetch[list[PartitionRead]]):
    """One fetch of a consumer."""

    __slots__ = ("_options", "_rack", "_service", "_targets")

    def __init__(
        self,
        service: ConsumerFetches,
        targets: Sequence[tuple[PartitionKey, FetchTarget]],
        limits: FetchBounds,
        options: ConsumerOptions,
    ) -> None:
        super().__init__(service.loop, limits, service.configs.broker)
        self._service = service
        self._targets = targets
        self._options = options
        self._rack = options.rack if options.rack and service.selects_by_rack else ""

    def complete(self) -> list[PartitionRead]:
        committed = self._options.committed
        for read in self.reads:
            read.complete()
            partition = read.partition
            if partition is not None and read.records:
                partition.sent_bytes += len(read.records)
                if committed:
                    read.aborted = _aborted(partition, read)
        return self.reads

    def _look(self) -> list[PartitionRead]:
        return [self._check(PartitionRead(key, target)) for key, target in self._targets]

    def _check(self, read: PartitionRead) -> PartitionRead:
        """Find the partition and check offset and epochs."""
        topic, index = read.key
        replicas = self._service.replicas
        found = (
            replicas.find_replica_by_id(topic, index)
            if isinstance(topic, bytes)
            else replicas.find_replica(topic, index)
        )
        if isinstance(found, ErrorCode):
            read.error = found
            return read
        if found.leader is None and self._options.leader_only:
            read.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return read
        read.partition = found
        if not self._options.committed:
            read.aborted = None
        read.error = found.fetch_error(read.target.current_leader_epoch)
        if read.error is ErrorCode.NONE:
            read.check_position()
        if found.leader is None and (
            read.error is ErrorCode.OFFSET_OUT_OF_RANGE or read.diverging is not None
        ):
            # The log of a follower may end before that of its leader. A consumer that took it for the leader would
            # reset its position; it is to ask the leader instead.
            read.error, read.diverging = ErrorCode.NOT_LEADER_OR_FOLLOWER, None
        if self._rack and read.error is ErrorCode.NONE:
            read.preferred_replica = self._service.preferred_read_replica(
                found, offset=read.target.fetch_offset, rack=self._rack
            )
        return read

    def _limit_offset(self, read: PartitionRead) -> int:
        assert read.partition is not None
        return read.partition.readable_offset(committed=self._options.committed)

    def _waiters(self, read: PartitionRead) -> FetchWaiters:
        assert read.partition is not None
        return read.partition.fetches


def _aborted(partition: Replica, read: PartitionRead) -> list[AbortedTransaction]:
    """The aborted transactions that overlap with what was read."""
    records, start = read.records, read.target.fetch_offset
    if not records or not partition.has_aborted_from(start):
        return []
    end = start
    try:
        for _, header in headers(records):
            end = header.next_offset
    except CorruptBatchError:
        # The consumer will find the damage; until then it must not take aborted records for committed ones.
        end = read.upto_offset
    return partition.aborted_transactions(from_offset=start, upto_offset=end)
