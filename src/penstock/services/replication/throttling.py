"""How fast this broker copies the replicas that topics name as throttled, and how fast it lets others copy them.

Only copying is slowed down: a replica that is in sync is neither held back nor counted, for producers wait for it.
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


class ReplicationThrottle:
    """One side of it: the leader's, or the follower's. The rate may change at any time."""

    def __init__(self, world: World, configs: Configs, rate: Setting[int]) -> None:
        self._world = world
        self._configs = configs
        self._rate = rate
        self._throttle = Throttle()

    def count(self, size: int) -> None:
        self._throttle.count(size, rate=self._configs.broker[self._rate], now=self._world.loop.time())

    def wait_s(self) -> float:
        """How long no throttled replica may be copied."""
        return self._throttle.wait_s(rate=self._configs.broker[self._rate], now=self._world.loop.time())


class FollowerThrottle:
    """What this broker copies: the replicas that topics name, and those that are being moved to it."""

    def __init__(self, world: World, configs: Configs) -> None:
        self._named = ReplicationThrottle(world, configs, FOLLOWER_REPLICATION_THROTTLED_RATE)
        self._moved = ReplicationThrottle(world, configs, PENSTOCK_MOVE_MAX_BYTES_PER_SECOND)

    def count(self, follower: FollowerRole, size: int) -> None:
        for throttle in self._those_of(follower):
            throttle.count(size)

    def wait_s(self, follower: FollowerRole) -> float:
        """How long a partition is not to be fetched."""
        return max((throttle.wait_s() for throttle in self._those_of(follower)), default=0.0)

    def _those_of(self, follower: FollowerRole) -> Iterator[ReplicationThrottle]:
        if not follower.is_in_sync:
            if follower.is_throttled:
                yield self._named
            if follower.is_being_added:
                yield self._moved
