"""Fetching from one leader all partitions that follow it, over one connection, in one session.

One loop: ask, apply, ask again. Of a thousand partitions most are quiet: only those at which something may have changed
are looked at, and all of them every few seconds. What goes wrong with one partition makes that one wait
(`replica.fetch.backoff.ms`); what goes wrong with the connection makes all of them. When there is something new to ask
while the leader delays the last fetch, ReleaseFetch (key 10003) makes it answer.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

from penstock.base.broker_settings import PENSTOCK_LOOP_SLICE_MS
from penstock.base.cluster_settings import (
    REPLICA_FETCH_BACKOFF_MS,
    REPLICA_FETCH_MAX_BYTES,
    REPLICA_FETCH_MIN_BYTES,
    REPLICA_FETCH_RESPONSE_MAX_BYTES,
    REPLICA_FETCH_WAIT_MAX_MS,
    REPLICA_SOCKET_TIMEOUT_MS,
)
from penstock.base.errors import ErrorCode, StorageError
from penstock.client.connection import Connection, ConnectionLimits
from penstock.client.errors import ClientError
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.peer_requests.leader_fetch import (
    LOG_END,
    LOG_START,
    FollowerTerms,
    LeaderData,
    fetch_as_follower,
    leader_offset,
    release_fetch,
)
from penstock.cluster.peers import Peers
from penstock.core.fetch_sessions import FetchTarget, PartitionKey
from penstock.core.replica_session import Asked, ReplicaSession
from penstock.services.configs import Configs
from penstock.services.replicas.follower import FollowerRole
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.replication.copying import CopyError, LeaderOffsets, ReplicaAppender
from penstock.services.replication.throttling import FollowerThrottle
from penstock.storage.errors import NoRoomError
from penstock.world import World
from penstock.world.tasks import cancel_and_wait

log = logging.getLogger("penstock.replication")

_RESPONSE_BYTES_MIN: Final = 128 << 20
# Of a replica that is being moved here: what is in sync, and producers wait for, comes by the same answers.
_MOVED_BYTES_MAX: Final = 128 << 10
_THROTTLE_LOOK_S: Final = 1.0  # the rate may have changed by then
_SHORT_REST_S: Final = 0.005  # the first one; each is twice as long as the one before
_LOOK_AT_ALL_S: Final = 10.0  # not all that happens to a partition here is told: retention, a failing disk

# The leader, or this broker, has older metadata than the other: that passes, mostly within milliseconds, for which
# producers wait.
_PASSES: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class _Followed:
    """A partition that is fetched, and how it was last asked for."""

    __slots__ = ("follower", "has_trouble", "is_resting", "lags", "partition", "rest_s")

    def __init__(self, follower: FollowerRole) -> None:
        self.follower = follower
        self.partition = follower.replica
        self.is_resting = False  # something was wrong with it: it is asked for again after a while
        self.rest_s = _SHORT_REST_S
        self.has_trouble = False  # which was told; it is told again when it comes back
        # It lacks some of what is committed. Who does not is in sync as soon as the leader sees it, and producers wait
        # for it from then on, before this broker hears of it.
        self.lags = True


class ReplicaFetcher:
    """The partitions that are fetched from one leader."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        replicas: ReplicaManager,
        peers: Peers,
        configs: Configs,
        throttle: FollowerThrottle,
        *,
        node_id: int,
        leader: int,
    ) -> None:
        self._world = world
        self._loop = world.loop
        self._image = image
        self._peers = peers
        self._configs = configs
        self._throttle = throttle
        self._node_id = node_id
        self._leader = leader
        self._copier = ReplicaAppender(world, replicas, slice_ms=configs.broker[PENSTOCK_LOOP_SLICE_MS])
        self._followed: dict[PartitionKey, _Followed] = {}
        self._asked: dict[PartitionKey, _Followed] = {}  # those that the leader's session has
        self._stirred: dict[PartitionKey, None] = {}  # something may be to be said of these
        self._throttled: dict[PartitionKey, None] = {}
        self._looks_at_all_s = 0.0
        self._session = ReplicaSession()
        self._connection: Connection | None = None
        self._leader_epoch: int | None = None  # the registration of the leader that it is connected to
        self._is_asking = False
        self._news = asyncio.Event()
        self._nudges: dict[asyncio.Task[None], None] = {}
        self._is_reachable = True
        self._is_waiting_for_throttle = False
        self._task = world.loop.create_task(self._run(), name=f"fetch from broker {leader}")

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, follower: FollowerRole) -> None:
        """Fetch a partition from now on, or under its new leader epoch."""
        key = _key(follower.replica)
        found = self._followed.get(key)
        if found is None or found.follower is not follower:
            self._followed[key] = _Followed(follower)
            self._stirred[key] = None
            self._wake()

    def leave(self, partition: Replica) -> None:
        """Fetch a partition no more. What is under way for it is void."""
        found = self._followed.get(_key(partition))
        if found is not None and found.partition is partition:
            del self._followed[_key(partition)]
            self._stirred[_key(partition)] = None

    async def stop(self) -> None:
        await cancel_and_wait(self._task, *self._nudges)
        self._disconnect()

    # The loop.

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except ClientError as error:
                if self._leader_epoch != self._epoch_of_leader():
                    self._disconnect()  # it has begun another life, and knows nothing of what was asked in this one
                    continue
                if self._is_reachable:
                    log.info("replica fetcher for leader %d: %s; retrying", self._leader, error)
                self._is_reachable = False
                await self._start_over()
            except Exception:
                log.exception("replica fetcher for leader %d failed; restarting it", self._leader)
                await self._start_over()

    async def _start_over(self) -> None:
        self._disconnect()
        self._session.reset()
        await self._loop.sleep(self._configs.broker[REPLICA_FETCH_BACKOFF_MS] / 1000)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _round(self) -> None:
        self._news.clear()
        connection = await self._connected() if self._followed else None
        asking = self._ask()
        if connection is None or asking is None:
            self._session.restart()  # what is gone meanwhile is not remembered
            await self._news.wait()
            return
        self._is_reachable = True
        terms = self._terms()
        self._is_asking = True
        try:
            answer = await fetch_as_follower(connection, asking, terms)
        finally:
            self._is_asking = False
        error = answer.error
        self._session.answered(session_id=answer.session_id, error=error)
        if error is not ErrorCode.NONE:
            log.debug("replica fetcher for leader %d: fetch answered with %s", self._leader, error.name)
            return
        answered: list[Replica] = []
        for data in answer.partitions:
            followed = self._asked.get(data.key)
            if followed is not None:
                self._stirred[data.key] = None
                answered.append(followed.partition)
                await self._apply(followed, data)
        for partition in answered:
            if not partition.is_flushed_as_needed:
                # What the next fetch says of a partition must be on the disk; the wait is that of one shared sync.
                await partition.flushed()

    async def _connected(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            self._session.reset()
            broker = self._configs.broker
            limits = ConnectionLimits(
                connect_timeout_ms=broker[REPLICA_SOCKET_TIMEOUT_MS],
                request_timeout_ms=broker[REPLICA_SOCKET_TIMEOUT_MS] + broker[REPLICA_FETCH_WAIT_MAX_MS],
                response_bytes_max=max(_RESPONSE_BYTES_MIN, 2 * broker[REPLICA_FETCH_RESPONSE_MAX_BYTES]),
            )
            self._leader_epoch = self._epoch_of_leader()
            self._connection = await self._peers.connect(self._leader, limits)
        return self._connection

    def _epoch_of_leader(self) -> int | None:
        broker = self._image.brokers.get(self._leader)
        return None if broker is None else broker.epoch

    # What is asked.

    def _ask(self) -> Asked | None:
        """What to say to the leader: of everything at times, else of what may have changed; None if nothing is due."""
        now_s = self._loop.time()
        stirred, self._stirred = self._stirred, {}
        if self._session.says_all or now_s >= self._looks_at_all_s:
            self._looks_at_all_s = now_s + _LOOK_AT_ALL_S
            self._asked = self._due(self._followed)
            asked = {key: self._wanted(followed) for key, followed in self._asked.items()}
            return self._session.ask(asked) if asked else None
        due = self._due(stirred)
        gone = [key for key in stirred if key not in due]
        for key in gone:
            self._asked.pop(key, None)
        self._asked.update(due)
        changed = {key: self._wanted(followed) for key, followed in due.items()}
        return self._session.ask_about(changed, gone) if self._asked else None

    def _due(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, _Followed]:
        """Those of them that are to be fetched now."""
        due = {
            key: followed
            for key in keys
            if (followed := self._followed.get(key)) is not None
            and not followed.is_resting
            and followed.follower.is_current
        }
        copied = ((key, followed.follower) for key, followed in due.items() if followed.lags)
        waits_s = {key: wait_s for key, follower in copied if (wait_s := self._throttle.wait_s(follower))}
        self._throttled.update(dict.fromkeys(waits_s))
        if waits_s and not self._is_waiting_for_throttle:
            self._is_waiting_for_throttle = True
            self._loop.call_later(min(_THROTTLE_LOOK_S, *waits_s.values()), self._throttle_is_over)
        return {key: followed for key, followed in due.items() if key not in waits_s} if waits_s else due

    def _wanted(self, followed: _Followed) -> FetchTarget:
        partition, replica_log = followed.partition, followed.partition.log
        max_bytes = self._configs.broker[REPLICA_FETCH_MAX_BYTES]
        return FetchTarget(
            fetch_offset=replica_log.end_offset,
            max_bytes=min(_MOVED_BYTES_MAX, max_bytes) if followed.follower.is_being_added else max_bytes,
            current_leader_epoch=followed.follower.leader_epoch,
            last_fetched_epoch=replica_log.epochs.latest_epoch,
            log_start_offset=replica_log.start_offset,
            high_watermark=partition.high_watermark,
        )

    def _terms(self) -> FollowerTerms:
        broker = self._configs.broker
        registered = self._image.brokers.get(self._node_id)
        return FollowerTerms(
            node_id=self._node_id,
            broker_epoch=-1 if registered is None else registered.epoch,
            max_wait_ms=broker[REPLICA_FETCH_WAIT_MAX_MS],
            min_bytes=broker[REPLICA_FETCH_MIN_BYTES],
            max_bytes=broker[REPLICA_FETCH_RESPONSE_MAX_BYTES],
        )

    # What is answered.

    async def _apply(self, followed: _Followed, data: LeaderData) -> None:
        partition = followed.partition
        is_void = partial(self._is_void, data.key, followed)
        error = data.error
        try:
            if is_void():
                self._session.restart()
            elif error is ErrorCode.NONE:
                if followed.lags:
                    self._throttle.count(followed.follower, len(data.records or b""))
                if not await self._copier.apply(followed.follower, data, is_void):
                    self._session.restart()
                followed.lags = partition.log.end_offset < data.high_watermark
                followed.has_trouble = False
                followed.rest_s = _SHORT_REST_S
            elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._copier.meet(partition, partial(self._leader_offsets, partition), is_void)
            else:
                self._back_off(followed, f"it answers {error.name}", passes=error in _PASSES)
        except (CopyError, NoRoomError) as problem:
            self._session.restart()
            followed.has_trouble |= isinstance(problem, NoRoomError)  # which the partition has told
            self._back_off(followed, str(problem))
        except StorageError as problem:
            # The log has failed, and with it this replica; the others are fetched on.
            partition.log.fail(str(problem))
            partition.went_offline()

    def _is_void(self, key: PartitionKey, followed: _Followed) -> bool:
        return self._followed.get(key) is not followed or not followed.follower.is_current

    def _back_off(self, followed: _Followed, why: str, *, passes: bool = False) -> None:
        tell = log.debug if passes or followed.has_trouble else log.warning
        tell("%s: fetching from leader %d failed: %s", followed.partition, self._leader, why)
        followed.has_trouble |= not passes
        # The timer itself ends the rest: it may come a little before the clock says so, and it comes only once.
        followed.is_resting = True
        self._stirred[_key(followed.partition)] = None
        longest_s = self._configs.broker[REPLICA_FETCH_BACKOFF_MS] / 1000
        rest_s = min(followed.rest_s, longest_s) if passes else longest_s
        followed.rest_s = 2 * rest_s
        self._loop.call_later(rest_s, self._rested, followed)

    def _rested(self, followed: _Followed) -> None:
        followed.is_resting = False
        self._stirred[_key(followed.partition)] = None
        self._wake()

    async def _leader_offsets(self, partition: Replica) -> LeaderOffsets:
        return LeaderOffsets(
            start=await self._leader_offset(partition, LOG_START),
            end=await self._leader_offset(partition, LOG_END),
        )

    async def _leader_offset(self, partition: Replica, which: int) -> int:
        offset = await leader_offset(
            await self._connected(),
            partition.topic,
            partition.index,
            leader_epoch=partition.leader_epoch,
            which=which,
            node_id=self._node_id,
        )
        if isinstance(offset, ErrorCode):
            raise CopyError(f"its leader does not say where its log is: {offset.name}")
        return offset

    # When there is something new to ask.

    def _throttle_is_over(self) -> None:
        self._is_waiting_for_throttle = False
        throttled, self._throttled = self._throttled, {}
        self._stirred.update(throttled)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        if self._is_asking and not self._nudges and not self._task.done():
            nudge = self._loop.create_task(self._nudge(), name=f"nudge broker {self._leader}")
            self._nudges[nudge] = None
            nudge.add_done_callback(lambda done: self._nudges.pop(done, None))

    async def _nudge(self) -> None:
        """Have the leader complete the delayed fetch."""
        try:
            if self._connection is not None:
                await release_fetch(self._connection, self._leader)
        except ClientError as error:
            log.debug("broker %d: %s", self._leader, error)  # the fetch itself fails, too


def _key(partition: Replica) -> PartitionKey:
    return (partition.topic_id, partition.index)
