"""The services of transactions, as handlers find them."""

from penstock.cluster.handshake import PeerCredentials
from penstock.cluster.metadata import MetadataImage
from penstock.cluster.peers import Peers
from penstock.core.groups.shard import GroupShard
from penstock.core.transactions.shard import TransactionShard
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.producer_ids import ProducerIds
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.services.transactions.marker_writer import MarkerWriter
from penstock.services.transactions.markers import Markers
from penstock.services.transactions.remote_coordinators import RemoteCoordinators
from penstock.services.transactions.remote_markers import RemoteMarkers
from penstock.services.transactions.verifying import Verifier
from penstock.world import World


class Transactions:
    """Producer ids, markers in partitions, their writer, and who asks the coordinator for partitions."""

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
        # Two connections to each other broker: questions do not wait behind markers, which wait for their replicas.
        self._peers = Peers(world, image, credentials), Peers(world, image, credentials)
        questioned, marked = self._peers
        self._remote_coordinators = RemoteCoordinators(world, questioned)
        self._remote_markers = RemoteMarkers(world, marked)
        self.producer_ids = producer_ids
        self.markers = Markers(world, replicas, groups)
        self.marker_writer = MarkerWriter(
            world,
            image,
            coordinator,
            self.markers,
            self._remote_markers,
            node_id=node_id,
            slice_ms=slice_ms,
        )
        self.verifier = Verifier(
            world, coordinator, self.marker_writer, self._remote_coordinators, node_id=node_id
        )
        coordinator.on_effect = self.marker_writer.begin
        coordinator.on_leadership_changed = self.marker_writer.coordinator_moved

    def brokers_changed(self) -> None:
        """Whoever waits for a broker that is not there any more looks for the next leader, or coordinator."""
        for peers in self._peers:
            peers.brokers_changed()

    async def stop(self) -> None:
        await self.marker_writer.stop()
        await self._remote_markers.stop()
        await self._remote_coordinators.stop()
        for peers in self._peers:
            peers.close()
