"""Failure reports: brokers that refuse connections of several others are fenced before their sessions end.

A process that dies closes its connections at once; ZooKeeper waits for the session timeout. So each broker whose
connection is refused writes a report to the metadata store. Where two brokers have (or all others, if there are fewer)
the controller fences that broker epoch. If it is the controller that refuses connections, the reporting brokers delete
its node, and another one is elected: the new controller epoch fences the old one if its process still runs.
"""

import json
import logging
from collections.abc import Awaitable, Callable

from penstock.cluster.metadata import CONTROLLER, SUSPECTS, MetadataImage
from penstock.cluster.store_watcher import StoreWatcher
from penstock.world import World
from penstock.world.store import (
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    StoreError,
)

log = logging.getLogger("penstock.cluster")

WITNESSES = 2


class FailureReports:
    """Writes this broker's reports, and acts on those of all brokers."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        *,
        node_id: int,
        is_controller: Callable[[], bool],
        fence: Callable[[int, int], Awaitable[None]],
    ) -> None:
        self._world = world
        self._image = image
        self._node_id = node_id
        self._is_controller = is_controller
        self._fence = fence
        self._watcher = StoreWatcher(world, self._look, name="failure reports")

    async def report(self, node_id: int, epoch: int) -> None:
        """Report that a broker refuses connections."""
        try:
            await self._world.store.multi([Create(f"{SUSPECTS}/{node_id}.{epoch}.{self._node_id}")])
        except NodeExistsError:
            return
        except StoreError as error:
            log.debug("failure report could not be written to ZooKeeper: %s", error)

    def look(self) -> None:
        """Look for new reports. To be called again after a new session."""
        self._watcher.ask()

    async def stop(self) -> None:
        await self._watcher.stop()

    async def _look(self) -> bool:
        await self._act(await self._world.store.children(SUSPECTS, watch=self.look))
        return True

    async def _act(self, names: list[str]) -> None:
        witnesses: dict[tuple[int, int], list[str]] = {}
        for name in names:
            node_id, epoch, _ = map(int, name.split("."))
            witnesses.setdefault((node_id, epoch), []).append(name)
        for (node_id, epoch), found in witnesses.items():
            broker = self._image.brokers.get(node_id)
            if broker is not None and broker.epoch == epoch and not broker.fenced:
                others = sum(other != node_id for other in self._image.alive())
                if len(found) < min(WITNESSES, others):
                    continue
                if self._is_controller():
                    await self._fence(node_id, epoch)
                elif node_id == self._image.controller_id:
                    await self._depose_controller(node_id)
                    continue
            if self._is_controller():
                await self._delete_reports(found)

    async def _depose_controller(self, node_id: int) -> None:
        """Delete the controller's node, so that another one is elected: that fences the old one."""
        try:
            node = await self._world.store.get(CONTROLLER)
            if json.loads(node.data)["node_id"] == node_id:
                await self._world.store.multi([Delete(CONTROLLER, node.version)])
                log.warning(
                    "broker %d, the controller, refuses connections from several brokers; electing another controller",
                    node_id,
                )
        except NoNodeError:
            return

    async def _delete_reports(self, names: list[str]) -> None:
        for name in names:
            try:
                await self._world.store.multi([Delete(f"{SUSPECTS}/{name}")])
            except NoNodeError:
                continue
