"""Who is the controller: whoever creates the ephemeral node `/controller`, raising the controller's epoch in the same
step.

One that lost its session, or is told by the epoch that it has a successor, can write nothing more.
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
    """The outcome of an election. `epoch_version` is of the node of the epoch, for whoever won."""

    node_id: int
    epoch: int
    epoch_version: int | None = None


class ControllerElection:
    """Stands for election whenever there is no controller. `on_elected` hears of every outcome, one after the other."""

    def __init__(self, world: World, *, node_id: int, on_elected: Callable[[Elected], None]) -> None:
        self._world = world
        self._node_id = node_id
        self._on_elected = on_elected
        self._watcher = StoreWatcher(world, self._elect, name="election of the controller")
        self._known: Elected | None = None

    def stand(self) -> None:
        """Begin, or look again: there may be no controller. After a new session, call it again."""
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
        """The controller that there is; whoever looked hears when it is gone."""
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
        """This broker was elected and has not heard of it: the answer was lost."""
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
            return None  # somebody else was faster
        self.stand()  # to hear when the node is gone
        return Elected(self._node_id, epoch, node.version + 1)
