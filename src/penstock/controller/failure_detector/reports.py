"""Brokers that seem to be dead, though their sessions last: several others have found that nobody listens there.

A process that dies is noticed by whoever is connected to it, at once; ZooKeeper waits as long as a session may be
silent. So each broker that finds a connection refused writes that down, and where two have (or all others, if there
are fewer) the controller fences that broker's epoch. If it is the controller that seems dead, its node is taken away,
and another one is elected: whatever the old one still does, its epoch is over.
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
    """What this broker has to say of others, and what it does when enough say the same."""

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
        self._watcher = StoreWatcher(world, self._look, name="look at suspicions")

    async def report(self, node_id: int, epoch: int) -> None:
        """Nobody listens where that broker should."""
        try:
            await self._world.store.multi([Create(f"{SUSPECTS}/{node_id}.{epoch}.{self._node_id}")])
        except NodeExistsError:
            return
        except StoreError as error:
            log.debug("failure report could not be written to ZooKeeper: %s", error)

    def look(self) -> None:
        """Somebody may have something to say; after a new session, call it again."""
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
                    await self._depose(node_id)
                    continue
            if self._is_controller():
                await self._forget(found)

    async def _depose(self, node_id: int) -> None:
        """Have another controller elected. Its election fences the old one, should it live."""
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

    async def _forget(self, names: list[str]) -> None:
        for name in names:
            try:
                await self._world.store.multi([Delete(f"{SUSPECTS}/{name}")])
            except NoNodeError:
                continue
