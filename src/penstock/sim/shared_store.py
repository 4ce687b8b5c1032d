"""The metadata store that the nodes of a cluster share: the nodes' sessions, and the stored metadata."""

from collections.abc import Awaitable, Callable

from penstock.cluster.metadata import (
    BROKER_CONFIGS,
    BROKERS,
    LIVE,
    TOPICS,
    BrokerRegistration,
    MetadataImage,
    Topic,
    decode_configs,
)
from penstock.sim.loop import SimLoop
from penstock.sim.simulation import Simulation
from penstock.sim.store import SimStore
from penstock.sim.store_server import StoreServer
from penstock.world.store import Store

_NAME = "metadata-store"


class SharedStore:
    """One server, and each node's connection to it."""

    def __init__(self, simulation: Simulation, *, session_timeout_ms: int) -> None:
        process = simulation.new_process(_NAME)
        self._server = StoreServer(SimLoop(simulation.loop, process), simulation.kernel.random(_NAME))
        self._session_timeout_ms = session_timeout_ms
        self._stores: dict[int, SimStore] = {}  # each node's current session
        self._cuts: dict[int, int] = {}  # how many faults keep a node from the store

    def opener(self, node_id: int) -> Callable[[SimLoop], Awaitable[Store]]:
        """A function that opens a session of this node."""

        async def begin(loop: SimLoop) -> Store:
            store = self._server.new_store(loop, session_timeout_ms=self._session_timeout_ms)
            self._stores[node_id] = store
            if self._cuts.get(node_id):
                self._server.cut(store, silently=True)
            await store.begin()
            return store

        return begin

    # Faults.

    def cut(self, node_id: int, *, silently: bool) -> None:
        self._cuts[node_id] = self._cuts.get(node_id, 0) + 1
        if node_id in self._stores:
            self._server.cut(self._stores[node_id], silently=silently)

    def mend(self, node_id: int) -> None:
        self._cuts[node_id] = max(0, self._cuts.get(node_id, 0) - 1)
        if not self._cuts[node_id] and node_id in self._stores:
            self._server.mend(self._stores[node_id])

    def mend_all(self) -> None:
        for node_id in self._cuts:
            self._cuts[node_id] = 0
            self.mend(node_id)

    def expire(self, node_id: int) -> None:
        if node_id in self._stores:
            self._server.expire(self._stores[node_id])

    # The stored metadata.

    def content(self, path: str) -> bytes | None:
        """The data at a path; None if it does not exist."""
        tree = self._server.tree
        return tree.get(path).data if path in tree else None

    def names(self, path: str) -> list[str]:
        """The names of a path's children."""
        tree = self._server.tree
        return tree.children(path) if path in tree else []

    def on_change(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with each path, after it was changed."""
        self._server.on_change = callback

    def topic(self, name: str) -> Topic | None:
        content = self.content(f"{TOPICS}/{name}")
        return None if content is None else Topic.decode(name, content)

    def topics(self) -> list[Topic]:
        found = [self.topic(name) for name in self.names(TOPICS)]
        return [topic for topic in found if topic is not None]

    def brokers(self) -> dict[int, BrokerRegistration]:
        found = [
            BrokerRegistration.decode(self._server.tree.get(f"{BROKERS}/{name}").data)
            for name in self.names(BROKERS)
        ]
        return {broker.node_id: broker for broker in found}

    def draining(self) -> frozenset[int]:
        """The brokers that are being drained."""
        image = MetadataImage("")
        for name in self.names(BROKER_CONFIGS):
            content = self.content(f"{BROKER_CONFIGS}/{name}")
            if content is not None:
                image.broker_configs[name] = decode_configs(content)
        return frozenset(node_id for node_id in self.brokers() if image.is_draining(node_id))

    def living(self) -> list[int]:
        return sorted(map(int, self.names(LIVE)))
