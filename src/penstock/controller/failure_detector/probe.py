"""The failure detector's probe: an idle connection to every other broker, which ends when that broker's process does.

A broker that loses such a connection connects again. "Connection refused" means that no process listens there, and is
reported (`reports`). Any other failure (no answer, no route) says nothing about the process: the broker's session with
the metadata store decides.
"""

from collections.abc import Awaitable, Callable

from penstock.client.errors import ClientError, UnreachableError
from penstock.cluster.metadata import BrokerRegistration, MetadataImage
from penstock.cluster.peers import Peers
from penstock.controller.failure_detector.broker_view import BrokerView
from penstock.world import World
from penstock.world.tasks import Tasks

_TRY_AGAIN_S = 0.1


class ConnectionProbe:
    """Holds a connection to every unfenced broker, and reports those that refuse it."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        peers: Peers,
        *,
        node_id: int,
        broker_view: BrokerView,
        report: Callable[[int, int], Awaitable[None]],
    ) -> None:
        self._world = world
        self._image = image
        self._peers = peers
        self._node_id = node_id
        self._broker_view = broker_view
        self._report = report
        self._tasks = Tasks(world.loop)
        self._stopped = False

    def follow(self) -> None:
        """Begin to probe brokers that are new or unfenced."""
        for broker in self._image.brokers.values():
            name = f"probe of broker {broker.node_id}"
            if self._is_probed(broker) and not self._tasks.is_running(name) and not self._stopped:
                self._tasks.start(name, self._hold(broker.node_id))

    async def stop(self) -> None:
        self._stopped = True
        await self._tasks.stop()

    def _is_probed(self, broker: BrokerRegistration | None) -> bool:
        return broker is not None and not broker.fenced and broker.node_id != self._node_id

    def _is_same_registration(self, broker: BrokerRegistration) -> bool:
        """Whether the broker has not registered again: `Peers` closes the connections to its last registration."""
        known = self._image.brokers.get(broker.node_id)
        return known is not None and known.epoch == broker.epoch

    async def _hold(self, node_id: int) -> None:
        """Hold a connection to a broker, as long as it is not fenced."""
        try:
            while self._is_probed(broker := self._image.brokers.get(node_id)):
                assert broker is not None
                try:
                    connection = await self._peers.connect(node_id)
                except UnreachableError as error:
                    if isinstance(error.__cause__, ConnectionRefusedError):
                        self._doubt(node_id)
                        await self._report(node_id, broker.epoch)
                except ClientError:
                    pass
                else:
                    self._broker_view.answers(node_id)
                    try:
                        await connection.ended()
                        if self._is_same_registration(broker):
                            # Clients whose connections broke as well ask for the new leader at once.
                            self._doubt(node_id)
                        continue
                    finally:
                        connection.close()
                await self._world.loop.sleep(_TRY_AGAIN_S)
        finally:
            self._broker_view.answers(node_id)  # it is fenced: now the metadata say that it is dead

    def _doubt(self, node_id: int) -> None:
        self._broker_view.doubt(node_id, now=self._world.loop.time())
