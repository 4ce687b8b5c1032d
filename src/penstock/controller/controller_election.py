"""Election of the controller: the broker that creates the ephemeral node `/controller`, and raises the controller epoch
in the same step, is the controller.

A deposed controller can write nothing more: `controller_fencing`.
"""

import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from penstock.cluster.metadata import CONTROLLER, CONTROLLER_EPOCH, decode_number, encode_number
from penstock.cluster.store_watcher import StoreWatcher
from penstock.world import World
from penstock.world.store import BadVersionError, Create, NodeExistsError, NoNodeError, Set

log = logging.getLogger("penstock.cluster")


class Elected(NamedTuple):
    """The outcome of an election. `epoch_version` is the version of `/controller-epoch` if this broker won."""

    node_id: int
    epoch: int
    epoch_version: int | None = None


class ControllerElection:
    """Stands for election whenever there is no controller. `on_elected` is called with every outcome, in order."""

    def __init__(self, world: World, *, node_id: int, on_elected: Callable[[Elected], None]) -> None:
        self._world = world
        self._node_id = node_id
        self._on_elected = on_elected
        self._watcher = StoreWatcher(world, self._elect, name="controller election")
        self._known: Elected | None = None

    def stand(self) -> None:
        """Stand for election if there is no controller. To be called again after a new session."""
        self._watcher.ask()

    async def stop(self) -> None:
        await self._watcher.stop()

    async def _elect(self) -> bool:
        elected = await self._look() or await self._try()
        if elected is not None and elected != self._known:
            self._known = elected
            log.debug("broker %d is the controller, controller epoch %d", elected.node_id, elected.epoch)
            self._on_elected(elected)
        return elected is not None

    async def _look(self) -> Elected | None:
        """The present controller, if there is one; sets a watch on its node."""
        try:
            node = await self._world.store.get(CONTROLLER, watch=self.stand)
        except NoNodeError:
            return None
        document = json.loads(node.data)
        node_id, epoch = document["node_id"], document["epoch"]
        known = self._known
        if known is not None and (node_id, epoch) == known[:2]:
            return known
        if node_id == self._node_id:
            return await self._own(epoch)
        return Elected(node_id, epoch)

    async def _own(self, epoch: int) -> Elected | None:
        """The election of this broker, if it won and the answer was lost."""
        node = await self._world.store.get(CONTROLLER_EPOCH)
        return Elected(self._node_id, epoch, node.version) if decode_number(node.data) == epoch else None

    async def _try(self) -> Elected | None:
        node = await self._world.store.get(CONTROLLER_EPOCH)
        epoch = decode_number(node.data) + 1
        document = json.dumps({"node_id": self._node_id, "epoch": epoch}).encode()
        try:
            await self._world.store.multi(
                [
                    Create(CONTROLLER, document, ephemeral=True),
                    Set(CONTROLLER_EPOCH, encode_number(epoch), node.version),
                ]
            )
        except (NodeExistsError, BadVersionError):
            return None  # another broker was faster
        self.stand()  # sets the watch on the node
        return Elected(self._node_id, epoch, node.version + 1)
