"""What reading finds wrong with the logs of partitions: said, counted, and handed on to who can mend it.

A log notes what it finds in whatever thread reads it; here it is heard of on the loop. An index that was made again is
written down off the loop.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.base.errors import StorageError
from penstock.services.metrics import Metrics
from penstock.storage.damage import Finding, IndexRebuilt
from penstock.world.tasks import Tasks

if TYPE_CHECKING:
    from penstock.services.replicas.context import ReplicaContext
    from penstock.services.replicas.replica import Replica

log = logging.getLogger("penstock.findings")


class Findings:
    """Listens to the logs of a broker's partitions."""

    def __init__(self, context: "ReplicaContext", metrics: Metrics) -> None:
        self._context = context
        self._world = context.world
        self._writing = Tasks(context.world.loop)
        self._damaged = metrics.counter(
            "penstock_damaged_batches_total",
            "Batches found damaged when they were read, runs of them as one.",
        )
        self._rebuilt = metrics.counter(
            "penstock_rebuilt_indexes_total", "Damaged indexes of segments that were rebuilt."
        )

    def watch(self, partition: "Replica") -> None:
        """Hear of what is found in the log of a partition from now on."""
        partition.log.on_finding = self._from_thread(partition)

    def _from_thread(self, partition: "Replica") -> Callable[[], None]:
        def heard() -> None:
            self._world.loop.call_from_thread(self._look_at, partition)

        return heard

    def _look_at(self, partition: "Replica") -> None:
        for finding in partition.log.take_findings():
            self._note(partition, finding)

    def _note(self, partition: "Replica", finding: Finding) -> None:
        if isinstance(finding, IndexRebuilt):
            self._rebuilt.add()
            log.warning("%s: %s; its index was rebuilt from the batches", partition, finding.why)
            self._writing.start(f"writing a rebuilt index of {partition}", self._write_down(partition))
            return
        self._damaged.add()
        is_alone = len(partition.state.replicas) == 1
        log.error(
            "%s: offsets %d to %d are damaged (%s, at byte %d) and are answered with CORRUPT_MESSAGE. %s",
            partition,
            finding.damage.first_offset,
            finding.damage.next_offset - 1,
            finding.path,
            finding.damage.position,
            "No other replica has them; everything is kept as it is"
            if is_alone
            else "They are to be copied from another replica",
        )
        if self._context.listener is not None:
            self._context.listener.log_damaged(partition)

    async def _write_down(self, partition: "Replica") -> None:
        if partition.log.failed is not None:
            return
        try:
            await self._world.work.run(partition.log.write_rebuilt_indexes)
        except (OSError, StorageError) as error:
            # It is whole in memory; a later start finds the damage again.
            log.warning("%s: a rebuilt index cannot be written down for now: %s", partition, error)

    async def settle(self) -> None:
        """Return when all that was rebuilt is written down."""
        await self._writing.finish()
