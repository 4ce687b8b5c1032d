"""Tracks the partitions whose last write failed because the disk is full, in the log, in metrics and in `/healthz`.

A full disk is not a disk failure: neither the partition nor the broker goes offline. The records in the log stay,
fetches are served, and produce requests are rejected until there is room. The log undoes a write for which there was no
room (`NoRoomError`). A partition has room again when an append succeeds. If there are no appends, a probe checks every
second: the producers may have gone, and `/healthz` must not report a full disk after there is room again.

Each partition is logged once when it lacks room, and once when it has room again.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.services.metrics import Metrics
from penstock.storage.disk_space_probe import has_room_for
from penstock.world import World
from penstock.world.tasks import Tasks

if TYPE_CHECKING:
    from penstock.services.replicas.replica import Replica

log = logging.getLogger("penstock.disk_space")

_PROBE_INTERVAL_S: Final = 1.0
_NAMED_MAX: Final = 5
_PROBING: Final = "disk space probe"


class DiskSpace:
    """The partitions of a broker that lack disk space."""

    def __init__(self, world: World, metrics: Metrics) -> None:
        self._world = world
        self._lacking: dict[Replica, int] = {}  # the size of the write that failed, in bytes
        self._tasks = Tasks(world.loop)
        self.refusals = metrics.counter(
            "penstock_disk_full_total", "Writes to partitions that found no room on the disk."
        )
        metrics.gauge(
            "penstock_partitions_without_room",
            "Partitions whose last write found no room on the disk.",
            lambda: len(self._lacking),
        )

    def note_full(self, partition: "Replica", why: str, *, size: int) -> None:
        """Note that a write of `size` bytes failed because the disk is full."""
        self.refusals.add()
        if partition not in self._lacking:
            log.warning(
                "%s: disk full: produce requests are rejected until there is room; fetches go on (%s)",
                partition,
                why,
            )
        self._lacking[partition] = size
        if not self._tasks.is_running(_PROBING):
            self._tasks.start(_PROBING, self._probe())

    def note_room(self, partition: "Replica") -> None:
        """Note that a write succeeded, or that the probe found room."""
        if self._lacking.pop(partition, None) is not None:
            log.warning("%s: the disk has room again; accepting produce requests", partition)

    def forget(self, partition: "Replica") -> None:
        """Stop tracking a partition: it was removed, or rejects appends for another reason."""
        self._lacking.pop(partition, None)

    def problem(self) -> str | None:
        """The problem as `/healthz` reports it; None if no partition lacks room."""
        if not self._lacking:
            return None
        named = ", ".join(sorted(map(str, self._lacking))[:_NAMED_MAX])
        more = len(self._lacking) - _NAMED_MAX
        return f"no room on the disk for {named}" + (f" and {more} other partitions" if more > 0 else "")

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _probe(self) -> None:
        while self._lacking:
            await self._world.loop.sleep(_PROBE_INTERVAL_S)
            for partition, size in list(self._lacking.items()):
                probe = partial(has_room_for, partition.log.disk, partition.log.path, size)
                has_room = await self._world.work.run(probe)
                if has_room and self._lacking.get(partition) == size:
                    partition.found_room()
