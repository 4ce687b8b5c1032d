"""Starts and stops the fetchers of this broker: each follower is fetched from the leader that the metadata names."""

import asyncio
import logging

from penstock.base.cluster_settings import REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS
from penstock.cluster.metadata import NO_LEADER, MetadataImage
from penstock.cluster.peers import Peers
from penstock.services.configs import Configs
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.replication.fetcher import ReplicaFetcher
from penstock.services.replication.isr_manager import IsrController, IsrManager
from penstock.services.replication.log_repair import LogRepairer
from penstock.services.replication.replication_quotas import FollowerQuotas
from penstock.storage.errors import NoRoomError
from penstock.world import World
from penstock.world.tasks import Tasks, repeat

log = logging.getLogger("penstock.replication")


class Replication:
    """All replication of one broker: its fetchers, and its ISR manager."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        replicas: ReplicaManager,
        peers: Peers,
        configs: Configs,
        controller: IsrController,
        *,
        node_id: int,
    ) -> None:
        self._world = world
        self._image = image
        self._replicas = replicas
        self._peers = peers
        self._configs = configs
        self._node_id = node_id
        self._throttle = FollowerQuotas(world, configs)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[Replica, int] = {}  # the leader of every replica that is fetched
        self._runs = False
        self._background = Tasks(world.loop)
        self._stopping_fetchers = Tasks(world.loop)
        self._isr_manager = IsrManager(world, image, replicas, configs, controller, node_id=node_id)
        self._log_repairer = LogRepairer(world, image, replicas, peers, node_id=node_id)

    def start(self) -> None:
        """Start fetching, ISR proposals, log repair and the high watermark checkpoint."""
        self._runs = True
        self._replicas.listen(self)
        for partition in list(self._replicas.all()):
            self.replica_changed(partition)
            self._log_repairer.repair_if_damaged(partition)  # recovery may have found damage
        self._isr_manager.start()
        self._log_repairer.start()
        name = "high watermark checkpoint"
        checkpoints = repeat(
            self._world.loop,
            name,
            self._replicas.checkpoints.write_high_watermarks,
            log=log,
            interval_s=lambda: self._configs.broker[REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS] / 1000,
            passing=NoRoomError,
        )
        self._background.start(name, checkpoints)

    async def stop(self) -> None:
        """Stop all fetchers and background tasks."""
        self._runs = False
        await self._background.stop()
        await self._isr_manager.stop()
        fetchers, self._fetchers = self._fetchers, {}
        self._leaders.clear()
        await asyncio.gather(
            *(fetcher.stop() for fetcher in fetchers.values()),
            self._stopping_fetchers.finish(),
            self._log_repairer.stop(),
        )

    def follower_caught_up(self, replica: Replica) -> None:
        self._isr_manager.maybe_expand_isr(replica)

    def cannot_write(self, replica: Replica) -> None:
        self._isr_manager.maybe_resign(replica)

    def log_damaged(self, replica: Replica) -> None:
        self._log_repairer.repair_if_damaged(replica)

    def replica_changed(self, replica: Replica) -> None:
        """Fetch a follower from its leader, and no longer from an earlier leader."""
        if not self._runs:
            return
        leader, follower = replica.state.leader, replica.follower
        has_leader = follower is not None and not replica.is_offline and leader != NO_LEADER
        before = self._leaders.pop(replica, None)
        if before is not None and (before != leader or not has_leader):
            self._leave(replica, before)
        if follower is not None and has_leader:
            self._leaders[replica] = leader
            self._fetcher(leader).follow(follower)

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                self._world,
                self._image,
                self._replicas,
                self._peers,
                self._configs,
                self._throttle,
                node_id=self._node_id,
                leader=leader,
            )
        return fetcher

    def _leave(self, partition: Replica, leader: int) -> None:
        fetcher = self._fetchers[leader]
        fetcher.leave(partition)
        if not len(fetcher):
            del self._fetchers[leader]
            self._stopping_fetchers.start(f"stop fetching from broker {leader}", fetcher.stop())
