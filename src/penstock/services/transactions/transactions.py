"""Transactions: the services that request handlers use for transactions."""

from penstock.cluster.handshake import PeerCredentials
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.peers import Peers
from penstock.core.groups.shard import GroupShard
from penstock.core.transactions.shard import TransactionShard
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.producer_ids import ProducerIds
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.transactions.marker_appender import MarkerAppender
from penstock.services.transactions.marker_sender import MarkerSender
from penstock.services.transactions.marker_writer import MarkerWriter
from penstock.services.transactions.produce_verifier import ProduceVerifier
from penstock.services.transactions.remote_coordinators import RemoteCoordinators
from penstock.world import World


class Transactions:
    """Producer ids, transaction markers, the marker writer, and the verifier."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        replicas: ReplicaManager,
        coordinator: Coordinator[TransactionShard],
        groups: Coordinator[GroupShard],
        producer_ids: ProducerIds,
        credentials: PeerCredentials,
        *,
        node_id: int,
        slice_ms: float,
    ) -> None:
        # Two connections to each other broker: WriteTxnMarkers is answered once the markers are replicated, and
        # AddPartitionsToTxn must not wait behind it.
        self._peers = Peers(world, image, credentials), Peers(world, image, credentials)
        coordinator_peers, marker_peers = self._peers
        self._remote_coordinators = RemoteCoordinators(world, coordinator_peers)
        self._marker_sender = MarkerSender(world, marker_peers)
        self.producer_ids = producer_ids
        self.marker_appender = MarkerAppender(world, replicas, groups)
        self.marker_writer = MarkerWriter(
            world,
            image,
            coordinator,
            self.marker_appender,
            self._marker_sender,
            node_id=node_id,
            slice_ms=slice_ms,
        )
        self.verifier = ProduceVerifier(
            world, coordinator, self.marker_writer, self._remote_coordinators, node_id=node_id
        )
        coordinator.on_effect = self.marker_writer.begin
        coordinator.on_leadership_changed = self.marker_writer.coordinator_moved

    def brokers_changed(self) -> None:
        """Fail requests to brokers that are fenced or restarted; the new leader or coordinator is asked instead."""
        for peers in self._peers:
            peers.brokers_changed()

    async def stop(self) -> None:
        await self.marker_writer.stop()
        await self._marker_sender.stop()
        await self._remote_coordinators.stop()
        for peers in self._peers:
            peers.close()
