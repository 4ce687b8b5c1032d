"""Which partitions found no room on the disk: said once for each, and again when there is room; counted and shown.

A full disk is no failure: what is there stays, readers are served, and appends are refused until there is room. That
is over with the next append that succeeds. Where none comes, the room is looked for every second: producers may have
gone, and `/healthz` must not say for ever what was so once.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.services.metrics import Metrics
from penstock.storage.room_probe import has_room_for
from penstock.world import World
from penstock.world.tasks import Tasks

if TYPE_CHECKING:
    from penstock.services.replicas.replica import Replica

log = logging.getLogger("penstock.room")

_LOOK_EVERY_S: Final = 1.0
_NAMED_MAX: Final = 5
_LOOKING: Final = "looking for room on the disk"


class Room:
    """The partitions of a broker that lack room."""

    def __init__(self, world: World, metrics: Metrics) -> None:
        self._world = world
        self._lacking: dict[Replica, int] = {}  # and how many bytes found no room
        self._tasks = Tasks(world.loop)
        self.refusals = metrics.counter(
            "penstock_disk_full_total", "Writes to partitions that found no room on the disk."
        )
        metrics.gauge(
            "penstock_partitions_without_room",
            "Partitions whose last write found no room on the disk.",
            lambda: len(self._lacking),
        )

    def missing(self, partition: "Replica", why: str, *, size: int) -> None:
        """A write of so many bytes found no room."""
        self.refusals.add()
        if partition not in self._lacking:
            log.warning(
                "%s: disk full: produce requests are rejected until there is room; fetches go on (%s)",
                partition,
                why,
            )
        self._lacking[partition] = size
        if not self._tasks.is_running(_LOOKING):
            self._tasks.start(_LOOKING, self._look())

    def found(self, partition: "Replica") -> None:
        """A write found room again."""
        if self._lacking.pop(partition, None) is not None:
            log.warning("%s: the disk has room again; accepting produce requests", partition)

    def forget(self, partition: "Replica") -> None:
        """The partition is gone, or takes nothing for another reason."""
        self._lacking.pop(partition, None)

    def problem(self) -> str | None:
        """What is wrong, for `/healthz`; None if nothing is."""
        if not self._lacking:
            return None
        named = ", ".join(sorted(map(str, self._lacking))[:_NAMED_MAX])
        more = len(self._lacking) - _NAMED_MAX
        return f"no room on the disk for {named}" + (f" and {more} other partitions" if more > 0 else "")

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _look(self) -> None:
        while self._lacking:
            await self._world.loop.sleep(_LOOK_EVERY_S)
            for partition, size in list(self._lacking.items()):
                probe = partial(has_room_for, partition.log.disk, partition.log.path, size)
                has_room = await self._world.work.run(probe)
                if has_room and self._lacking.get(partition) == size:
                    partition.found_room()
