"""Handles damage that reads find in the logs of partitions: logs it, counts it, and has damaged batches repaired.

A read may find damage in any thread; it is handled here, on the loop. Two kinds are found:

    damaged batch   its offsets are answered with CORRUPT_MESSAGE, batches around it are served, and
                    `services.replication.log_repair` copies it from another replica. The only replica keeps it.
    damaged index   it has been rebuilt from the batches, in memory; here it is written to disk, off the loop.
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

log = logging.getLogger("penstock.log_damage")


class LogDamageHandler:
    """Handles the damage that is found in the logs of a broker's partitions."""

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
        """Receive the findings of a partition's log from now on."""
        partition.log.on_finding = self._from_thread(partition)

    def _from_thread(self, partition: "Replica") -> Callable[[], None]:
        def found() -> None:
            self._world.loop.call_from_thread(self._handle, partition)

        return found

    def _handle(self, partition: "Replica") -> None:
        for finding in partition.log.take_findings():
            self._handle_finding(partition, finding)

    def _handle_finding(self, partition: "Replica", finding: Finding) -> None:
        if isinstance(finding, IndexRebuilt):
            self._rebuilt.add()
            log.warning("%s: %s; its index was rebuilt from the batches", partition, finding.why)
            self._writing.start(f"writing a rebuilt index of {partition}", self._write_indexes(partition))
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
            "No other replica has them; the damaged bytes are kept"
            if is_alone
            else "Copying them from another replica",
        )
        if self._context.listener is not None:
            self._context.listener.log_damaged(partition)

    async def _write_indexes(self, partition: "Replica") -> None:
        if partition.log.failed is not None:
            return
        try:
            await self._world.work.run(partition.log.write_rebuilt_indexes)
        except (OSError, StorageError) as error:
            # The index in memory is complete; the next start finds the damage on disk again.
            log.warning(
                "%s: writing a rebuilt index failed: %s; the next start rebuilds it again", partition, error
            )

    async def settle(self) -> None:
        """Return when all rebuilt indexes are written to disk."""
        await self._writing.finish()
