"""Replication quotas: how fast this broker fetches throttled replicas, and how fast it serves their fetches.

Replicas in the ISR are neither throttled nor counted: producers wait for them.
"""

from collections.abc import Iterator

from penstock.base.cluster_settings import (
    FOLLOWER_REPLICATION_THROTTLED_RATE,
    PENSTOCK_MOVE_MAX_BYTES_PER_SECOND,
)
from penstock.base.settings import Setting
from penstock.core.throttling import Throttle
from penstock.services.configs import Configs
from penstock.services.replicas.follower import FollowerRole
from penstock.world import World


class ReplicationQuota:
    """The quota of the leader's or of the follower's side. The rate may change at any time."""

    def __init__(self, world: World, configs: Configs, rate: Setting[int]) -> None:
        self._world = world
        self._configs = configs
        self._rate = rate
        self._throttle = Throttle()

    def count(self, size: int) -> None:
        self._throttle.count(size, rate=self._configs.broker[self._rate], now=self._world.loop.time())

    def wait_s(self) -> float:
        """How long throttled replicas have to wait; 0 if they do not."""
        return self._throttle.wait_s(rate=self._configs.broker[self._rate], now=self._world.loop.time())


class FollowerQuotas:
    """The quotas of this broker's fetches: Kafka's for throttled replicas, and ours for replicas of a reassignment."""

    def __init__(self, world: World, configs: Configs) -> None:
        self._named = ReplicationQuota(world, configs, FOLLOWER_REPLICATION_THROTTLED_RATE)
        self._adding = ReplicationQuota(world, configs, PENSTOCK_MOVE_MAX_BYTES_PER_SECOND)

    def count(self, follower: FollowerRole, size: int) -> None:
        for throttle in self._throttles_of(follower):
            throttle.count(size)

    def wait_s(self, follower: FollowerRole) -> float:
        """How long a partition must not be fetched; 0 if it may be."""
        return max((throttle.wait_s() for throttle in self._throttles_of(follower)), default=0.0)

    def _throttles_of(self, follower: FollowerRole) -> Iterator[ReplicationQuota]:
        if not follower.is_in_sync:
            if follower.is_throttled:
                yield self._named
            if follower.is_being_added:
                yield self._adding
