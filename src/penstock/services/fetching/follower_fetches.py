"""Followers' fetches: a follower says how far it is, and reads up to the leader's log end offset.

The fetch offset says which offsets the follower's log has. It is noted once per request, by a call of its own, before
anything is read, since it may advance the high watermark that the response carries. When the high watermark advances,
followers get it within milliseconds. A follower whose partitions change meanwhile releases its delayed fetch.

A follower's session has all partitions that follow one leader. Those at which nothing happens are idle: a fetch skips
them (`idle_partitions`).
"""

from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.cluster.metadata import MetadataImage
from penstock.core.fetch_sessions import Answer, Fetch, IncrementalFetch, PartitionKey
from penstock.services.configs import Configs
from penstock.services.fetching.delayed_fetch import DelayedFetch
from penstock.services.fetching.idle_partitions import IdlePartitions
from penstock.services.fetching.partition_read import FetchBounds, PartitionRead
from penstock.services.purgatory import FetchWait, FetchWaiters
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.replication.replication_quotas import ReplicationQuota
from penstock.world import World

NO_BROKER_EPOCH: Final = -1


class FollowerIdentity(NamedTuple):
    """The broker that fetches as a follower."""

    node_id: int
    broker_epoch: int = NO_BROKER_EPOCH  # in the request
    registered_epoch: int = NO_BROKER_EPOCH  # in the metadata


class FollowerAnswer(NamedTuple):
    """What a follower's session answers, and what was read."""

    answer: Answer
    reads: list[PartitionRead]


class FollowerFetches:
    """Serves the fetches of followers of this broker's partitions."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        replicas: ReplicaManager,
        configs: Configs,
        throttle: ReplicationQuota,
    ) -> None:
        self.loop = world.loop
        self.replicas = replicas
        self.configs = configs
        self.throttle = throttle  # of what followers copy from this broker
        self._image = image

    def fetch(
        self, session: Fetch, limits: FetchBounds, *, node_id: int, broker_epoch: int
    ) -> "FollowerAnswer | FollowerFetch":
        """Note how far a follower is, and read what it lacks; the answer, or a fetch to await for it."""
        broker = self._image.brokers.get(node_id)
        registered_epoch = NO_BROKER_EPOCH if broker is None else broker.epoch
        follower = FollowerIdentity(node_id, broker_epoch, registered_epoch)
        fetch = FollowerFetch(self, session, limits, follower)
        return fetch.complete() if fetch.is_complete_at_once() else fetch


class FollowerFetch(DelayedFetch[FollowerAnswer]):
    """One fetch of a follower."""

    __slots__ = ("_follower", "_idle", "_service", "_session")

    def __init__(
        self, service: FollowerFetches, session: Fetch, limits: FetchBounds, follower: FollowerIdentity
    ) -> None:
        super().__init__(service.loop, limits, service.configs.broker)
        self._service = service
        self._session = session
        self._follower = follower
        self._idle = self._idle_partitions()

    def _idle_partitions(self) -> IdlePartitions | None:
        """The session's idle partitions; all become active at times, and after the follower's restart."""
        session = self._session
        if not isinstance(session, IncrementalFetch):
            return None
        idle = session.idle_watch
        if idle is None:
            idle = session.idle_watch = IdlePartitions(self._follower.node_id, session.mark_active)
        assert isinstance(idle, IdlePartitions)
        if not idle.asks(self._follower, self._loop.time()):
            session.mark_all_active()
        return idle

    def is_complete_at_once(self) -> bool:
        reads = self._look()
        self._note_progress(reads)
        self._read(reads)
        return all(read.records is not None for read in reads) and self._is_enough()

    def _note_progress(self, reads: list[PartitionRead]) -> None:
        """Tell the leaders of the partitions how far this follower is."""
        for read in reads:
            leader = None if read.partition is None else read.partition.leader
            if leader is not None and not read.completes_fetch:
                leader.note_follower(
                    self._follower.node_id,
                    offset=read.target.fetch_offset,
                    start_offset=read.target.log_start_offset,
                    broker_epoch=self._follower.broker_epoch,
                )

    def complete(self) -> FollowerAnswer:
        for read in self.reads:
            read.complete()
            if read.records and read.is_throttled:
                self._service.throttle.count(len(read.records))
        answer = self._session.finish({read.key: read.outcome() for read in self.reads})
        if answer.error is ErrorCode.NONE:
            self._mark_idle(answer.included)
        return FollowerAnswer(answer, self.reads)

    def _mark_idle(self, included: list[PartitionKey]) -> None:
        """Mark as idle the partitions that the follower is caught up with and that are not in the response."""
        idle, session = self._idle, self._session
        if idle is None:
            return
        assert isinstance(session, IncrementalFetch)
        sent = frozenset(included)
        for read in self.reads:
            partition = read.partition
            if partition is None or read.key in sent:
                continue
            leader = partition.leader
            if leader is not None and leader.has_everything(
                self._follower.node_id, offset=read.target.fetch_offset
            ):
                session.mark_idle(read.key)
                idle.add(read.key, partition)

    def _look(self) -> list[PartitionRead]:
        return [self._check(PartitionRead(key, target)) for key, target in self._session.partitions()]

    def _check(self, read: PartitionRead) -> PartitionRead:
        """Find the partition that this broker leads, and check the follower, its offset and its epochs."""
        topic, index = read.key
        replicas = self._service.replicas
        leader = (
            replicas.find_leader_by_id(topic, index)
            if isinstance(topic, bytes)
            else replicas.find_leader(topic, index)
        )
        if isinstance(leader, ErrorCode):
            read.error = leader
            return read
        read.partition = leader.replica
        read.aborted = None
        read.error = leader.replica.fetch_error(read.target.current_leader_epoch)
        if read.error is ErrorCode.NONE:
            read.error = leader.follower_refusal(
                self._follower.node_id,
                broker_epoch=self._follower.broker_epoch,
                current_epoch=self._follower.registered_epoch,
            )
        if read.error is ErrorCode.NONE:
            read.check_position()
        read.known_high_watermark = self._session.known_high_watermark(read.key)
        return read

    def _limit_offset(self, read: PartitionRead) -> int:
        assert read.partition is not None
        return read.partition.log.end_offset

    def _is_throttled(self, read: PartitionRead) -> bool:
        assert read.partition is not None
        leader = read.partition.leader
        read.is_throttled = leader is not None and leader.throttles(self._follower.node_id)
        return read.is_throttled and self._service.throttle.wait_s() > 0

    def _waiters(self, read: PartitionRead) -> FetchWaiters:
        assert read.partition is not None
        return read.partition.follower_fetches

    @property
    def _has_more_partitions(self) -> bool:
        return len(self._session) != len(self.reads)

    @property
    def _is_about_something(self) -> bool:
        return bool(self.reads) or self._session.has_idle

    def _began_waiting(self, waiting: FetchWait) -> None:
        if self._idle is not None:
            self._idle.waiting = waiting

    def _ended_waiting(self, waiting: FetchWait) -> None:
        if self._idle is not None and self._idle.waiting is waiting:
            self._idle.waiting = None
