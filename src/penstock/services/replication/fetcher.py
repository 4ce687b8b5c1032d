"""The replica fetcher: fetches all partitions that follow one leader, over one connection, in one fetch session.

It is a loop: fetch, apply, fetch again. Of a thousand partitions most are idle, so a round examines only those that may
have changed, and all of them every 10 s. An error of one partition backs off that partition
(`replica.fetch.backoff.ms`); an error of the connection backs off all. If a partition changes while the leader delays
the current fetch, ReleaseFetch (key 10003) makes the leader complete it.
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
from penstock.core.follower_fetch_session import FollowerFetchSession, SessionRequest
from penstock.services.configs import Configs
from penstock.services.replicas.follower import FollowerRole
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.replication.replica_appender import LeaderOffsets, ReplicaAppender, ReplicaAppendError
from penstock.services.replication.replication_quotas import FollowerQuotas
from penstock.storage.errors import NoRoomError
from penstock.world import World
from penstock.world.tasks import cancel_and_wait

log = logging.getLogger("penstock.replication")

_RESPONSE_BYTES_MIN: Final = 128 << 20
# Of a replica that a reassignment adds: replicas in the ISR, for which producers wait, share the same responses.
_ADDING_BYTES_MAX: Final = 128 << 10
_THROTTLE_CHECK_S: Final = 1.0  # at the latest: the rate may have changed
_FIRST_BACKOFF_S: Final = 0.005  # doubles with every further error
_EXAMINE_ALL_S: Final = 10.0  # some changes of a partition are not signalled: retention, a failed disk

# One of the two brokers has older metadata than the other. That lasts milliseconds, mostly, and producers wait for it:
# the backoff starts short.
_TRANSIENT: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class _Followed:
    """A partition that is fetched, and its backoff."""

    __slots__ = ("backoff_s", "failure_is_logged", "follower", "is_backing_off", "lags", "partition")

    def __init__(self, follower: FollowerRole) -> None:
        self.follower = follower
        self.partition = follower.replica
        self.is_backing_off = False  # not fetched until the timer fires
        self.backoff_s = _FIRST_BACKOFF_S
        self.failure_is_logged = False  # until a fetch succeeds
        # Behind the high watermark, and so throttled. A follower that has reached it joins the ISR with its next fetch,
        # and producers wait for it before this broker receives the new metadata.
        self.lags = True


class ReplicaFetcher:
    """Fetches the partitions that follow one leader."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        replicas: ReplicaManager,
        peers: Peers,
        configs: Configs,
        throttle: FollowerQuotas,
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
        self._appender = ReplicaAppender(world, replicas, slice_ms=configs.broker[PENSTOCK_LOOP_SLICE_MS])
        self._followed: dict[PartitionKey, _Followed] = {}
        self._in_session: dict[PartitionKey, _Followed] = {}  # in the leader's fetch session
        self._changed: dict[PartitionKey, None] = {}  # to be examined before the next fetch
        self._throttled: dict[PartitionKey, None] = {}
        self._examines_all_s = 0.0
        self._session = FollowerFetchSession()
        self._connection: Connection | None = None
        self._leader_epoch: int | None = None  # the broker epoch of the leader it is connected to
        self._is_fetching = False
        self._has_changes = asyncio.Event()
        self._releases: dict[asyncio.Task[None], None] = {}
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
            self._changed[key] = None
            self._wake()

    def leave(self, partition: Replica) -> None:
        """Stop fetching a partition. Responses that are in flight are stale for it."""
        found = self._followed.get(_key(partition))
        if found is not None and found.partition is partition:
            del self._followed[_key(partition)]
            self._changed[_key(partition)] = None

    async def stop(self) -> None:
        await cancel_and_wait(self._task, *self._releases)
        self._disconnect()

    # The loop.

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_once()
            except ClientError as error:
                if self._leader_epoch != self._epoch_of_leader():
                    self._disconnect()  # the leader has restarted, and has no session
                    continue
                if self._is_reachable:
                    log.info("replica fetcher for leader %d: %s; retrying", self._leader, error)
                self._is_reachable = False
                await self._reconnect_later()
            except Exception:
                log.exception("replica fetcher for leader %d failed; restarting it", self._leader)
                await self._reconnect_later()

    async def _reconnect_later(self) -> None:
        self._disconnect()
        self._session.reset()
        await self._loop.sleep(self._configs.broker[REPLICA_FETCH_BACKOFF_MS] / 1000)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _fetch_once(self) -> None:
        self._has_changes.clear()
        connection = await self._connected() if self._followed else None
        request = self._next_request()
        if connection is None or request is None:
            self._session.restart()  # partitions that leave meanwhile are not forgotten one by one
            await self._has_changes.wait()
            return
        self._is_reachable = True
        terms = self._terms()
        self._is_fetching = True
        try:
            answer = await fetch_as_follower(connection, request, terms)
        finally:
            self._is_fetching = False
        error = answer.error
        self._session.answered(session_id=answer.session_id, error=error)
        if error is not ErrorCode.NONE:
            log.debug("replica fetcher for leader %d: fetch answered with %s", self._leader, error.name)
            return
        answered: list[Replica] = []
        for data in answer.partitions:
            followed = self._in_session.get(data.key)
            if followed is not None:
                self._changed[data.key] = None
                answered.append(followed.partition)
                await self._apply_partition(followed, data)
        for partition in answered:
            if not partition.is_flushed_as_needed:
                # The next fetch acknowledges these offsets, so they must be flushed. One shared sync serves all.
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

    # Requests.

    def _next_request(self) -> SessionRequest | None:
        """The next fetch: of the partitions that may have changed, or of all; None if there is nothing to fetch."""
        now_s = self._loop.time()
        changed_keys, self._changed = self._changed, {}
        if self._session.is_next_full or now_s >= self._examines_all_s:
            self._examines_all_s = now_s + _EXAMINE_ALL_S
            self._in_session = self._due(self._followed)
            asked = {key: self._target(followed) for key, followed in self._in_session.items()}
            return self._session.request(asked) if asked else None
        due = self._due(changed_keys)
        gone = [key for key in changed_keys if key not in due]
        for key in gone:
            self._in_session.pop(key, None)
        self._in_session.update(due)
        changed = {key: self._target(followed) for key, followed in due.items()}
        return self._session.incremental_request(changed, gone) if self._in_session else None

    def _due(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, _Followed]:
        """Those partitions that can be fetched now: not backing off, not throttled."""
        due = {
            key: followed
            for key in keys
            if (followed := self._followed.get(key)) is not None
            and not followed.is_backing_off
            and followed.follower.is_current
        }
        lagging = ((key, followed.follower) for key, followed in due.items() if followed.lags)
        waits_s = {key: wait_s for key, follower in lagging if (wait_s := self._throttle.wait_s(follower))}
        self._throttled.update(dict.fromkeys(waits_s))
        if waits_s and not self._is_waiting_for_throttle:
            self._is_waiting_for_throttle = True
            self._loop.call_later(min(_THROTTLE_CHECK_S, *waits_s.values()), self._throttle_ended)
        return {key: followed for key, followed in due.items() if key not in waits_s} if waits_s else due

    def _target(self, followed: _Followed) -> FetchTarget:
        partition, replica_log = followed.partition, followed.partition.log
        max_bytes = self._configs.broker[REPLICA_FETCH_MAX_BYTES]
        return FetchTarget(
            fetch_offset=replica_log.end_offset,
            max_bytes=min(_ADDING_BYTES_MAX, max_bytes) if followed.follower.is_being_added else max_bytes,
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

    # Responses.

    async def _apply_partition(self, followed: _Followed, data: LeaderData) -> None:
        partition = followed.partition
        is_stale = partial(self._is_stale, data.key, followed)
        error = data.error
        try:
            if is_stale():
                self._session.restart()
            elif error is ErrorCode.NONE:
                if followed.lags:
                    self._throttle.count(followed.follower, len(data.records or b""))
                if not await self._appender.apply(followed.follower, data, is_stale):
                    self._session.restart()
                followed.lags = partition.log.end_offset < data.high_watermark
                followed.failure_is_logged = False
                followed.backoff_s = _FIRST_BACKOFF_S
            elif error is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._appender.handle_offset_out_of_range(
                    partition, partial(self._leader_offsets, partition), is_stale
                )
            else:
                self._back_off(followed, f"it answers {error.name}", is_transient=error in _TRANSIENT)
        except (ReplicaAppendError, NoRoomError) as problem:
            self._session.restart()
            followed.failure_is_logged |= isinstance(problem, NoRoomError)  # `DiskSpace` has logged it
            self._back_off(followed, str(problem))
        except StorageError as problem:
            # Only this replica goes offline; the others are still fetched.
            partition.log.fail(str(problem))
            partition.went_offline()

    def _is_stale(self, key: PartitionKey, followed: _Followed) -> bool:
        return self._followed.get(key) is not followed or not followed.follower.is_current

    def _back_off(self, followed: _Followed, why: str, *, is_transient: bool = False) -> None:
        write = log.debug if is_transient or followed.failure_is_logged else log.warning
        write("%s: fetching from leader %d failed: %s", followed.partition, self._leader, why)
        followed.failure_is_logged |= not is_transient
        # The timer ends the backoff, not the clock: it may fire slightly early, and it fires once.
        followed.is_backing_off = True
        self._changed[_key(followed.partition)] = None
        longest_s = self._configs.broker[REPLICA_FETCH_BACKOFF_MS] / 1000
        backoff_s = min(followed.backoff_s, longest_s) if is_transient else longest_s
        followed.backoff_s = 2 * backoff_s
        self._loop.call_later(backoff_s, self._backoff_over, followed)

    def _backoff_over(self, followed: _Followed) -> None:
        followed.is_backing_off = False
        self._changed[_key(followed.partition)] = None
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
            raise ReplicaAppendError(f"ListOffsets of the leader failed: {offset.name}")
        return offset

    # Changes while a fetch is in flight.

    def _throttle_ended(self) -> None:
        self._is_waiting_for_throttle = False
        throttled, self._throttled = self._throttled, {}
        self._changed.update(throttled)
        self._wake()

    def _wake(self) -> None:
        self._has_changes.set()
        if self._is_fetching and not self._releases and not self._task.done():
            release = self._loop.create_task(
                self._release_fetch(), name=f"release the fetch at broker {self._leader}"
            )
            self._releases[release] = None
            release.add_done_callback(lambda done: self._releases.pop(done, None))

    async def _release_fetch(self) -> None:
        """Have the leader complete the delayed fetch."""
        try:
            if self._connection is not None:
                await release_fetch(self._connection, self._leader)
        except ClientError as error:
            log.debug("broker %d: %s", self._leader, error)  # the fetch fails as well


def _key(partition: Replica) -> PartitionKey:
    return (partition.topic_id, partition.index)
