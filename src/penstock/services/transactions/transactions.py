"""The services of transactions, as handlers find them."""

from penstock.core.groups.shard import GroupShard
from penstock.core.transactions.shard import TransactionShard
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.partitions import Partitions
from penstock.services.transactions.marker_writer import MarkerWriter
from penstock.services.transactions.markers import Markers
from penstock.services.transactions.verifying import Verifier
from penstock.world import World


class Transactions:
    """Markers in partitions, their writer, and who asks the coordinator for partitions."""

    def __init__(
        self,
        world: World,
        partitions: Partitions,
        coordinator: Coordinator[TransactionShard],
        groups: Coordinator[GroupShard],
        *,
        slice_ms: float,
    ) -> None:
        self.markers = Markers(world, partitions, groups)
        self.marker_writer = MarkerWriter(world, partitions, coordinator, self.markers, slice_ms=slice_ms)
        self.verifier = Verifier(coordinator, self.marker_writer)
        coordinator.on_effect = self.marker_writer.begin

    async def stop(self) -> None:
        await self.marker_writer.stop()
