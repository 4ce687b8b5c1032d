"""Data directories of a cluster's brokers: what was deleted or moved while a broker was away goes when it is back, by
what the metadata record, and nothing else does.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition, format_id
from penstock.client.client import Client
from penstock.client.topics import NewTopic, create_topics, delete_topics
from penstock.cluster.metadata import DELETIONS
from penstock.controller.rules.admin_requests import RequestedReplicas
from penstock.sim import Node, Simulation
from penstock.sim.foreign_directories import missing_foreign_directories
from penstock.sim.shared_store import SharedStore
from penstock.world.store import Delete
from tests.sim.stories import PATIENCE_S, as_client

SEGMENT = f"{0:020d}.log"
LONG = "t" * 249
SETTINGS = {
    "zookeeper.session.timeout.ms": 2_000,
    "log.segment.delete.delay.ms": 100,
    "penstock.balance.interval.ms": 3_600_000,
}


class Trio:
    """Three brokers on one metadata store, and a client of the first."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.store = SharedStore(simulation, session_timeout_ms=2_000)
        self.nodes: dict[int, Node] = {
            node_id: simulation.new_node(node_id, settings=SETTINGS, make_store=self.store.opener(node_id))
            for node_id in (1, 2, 3)
        }
        self.exits: list[int] = []
        for node_id, node in self.nodes.items():
            node.on_exit = lambda exited=node_id: self.exits.append(exited)  # type: ignore[misc]
        self._someone = simulation.new_outsider("someone")

    async def begin(self) -> None:
        for node in self.nodes.values():
            await node.start()

    async def ask(self, chore: Callable[[Client], Awaitable[object]]) -> None:
        await as_client(self.simulation, self._someone, self.nodes[1], chore)

    async def create(self, topic: str, *, partitions: int = 1, replicas: int = 3) -> None:
        new = NewTopic(topic, partitions=partitions, replication_factor=replicas)
        await self.ask(lambda client: create_topics(client, [new]))
        await until(lambda: all(self.directories(each, topic) for each in self.nodes))

    async def delete(self, topic: str) -> None:
        await self.ask(lambda client: delete_topics(client, [topic]))

    async def move(self, topic: str, *, to: tuple[int, ...]) -> None:
        """Have others than now hold the replicas of a topic's first partition."""
        where = TopicPartition(topic, 0)

        def is_done() -> bool:
            found = self.store.topic(topic)
            return found is not None and sorted(found.partitions[0].replicas) == sorted(to)

        while not is_done():
            for node in self.nodes.values():
                if node.broker is not None and node.broker.services.cluster.controller.is_active:
                    assert node.process is not None
                    controller = node.broker.services.cluster.controller
                    ask = controller.reassign_replicas([RequestedReplicas(where, to)], keeps_factor=False)
                    await self.simulation.loop.spawn(node.process, ask)
                    await asyncio.sleep(1)

    def directories(self, node_id: int, topic: str = "") -> list[str]:
        """The directories of partitions on a broker's disk."""
        names = self.nodes[node_id].disk.names("")
        return [name for name in names if name.startswith(f"{topic}-" if topic else "") and "-" in name]

    def files(self, node_id: int, *, but: tuple[str, ...] = ()) -> dict[str, bytes]:
        disk = self.nodes[node_id].disk
        return {path: disk.content(path) for path in disk.paths() if path not in but}


async def until(holds: Callable[[], object]) -> None:
    while not holds():
        await asyncio.sleep(0.05)


def run(story: Callable[[Trio], Awaitable[None]]) -> None:
    with Simulation(7) as simulation:
        trio = Trio(simulation)

        async def told() -> None:
            await trio.begin()
            await story(trio)

        simulation.run(told(), seconds_max=PATIENCE_S)
        assert not simulation.kernel.problems


FOREIGN = {
    SEGMENT: b"somebody else's",
    "partition.metadata": f"version: 0\ntopic_id: {format_id(b'another topic id')}\n".encode(),
}


def test_a_topic_that_is_deleted_while_a_broker_is_away_is_deleted_there_when_it_is_back() -> None:
    async def story(trio: Trio) -> None:
        await trio.create("orders", partitions=3)
        await trio.nodes[3].stop()
        await trio.delete("orders")
        assert len(trio.directories(3, "orders")) == 3
        trio.nodes[3].disk.put("orders-7", FOREIGN)
        await trio.nodes[3].start()
        await until(lambda: trio.directories(3, "orders") == ["orders-7"])
        assert not trio.exits

    run(story)


def test_a_topic_that_is_made_anew_while_a_broker_is_away_leaves_no_stray_there() -> None:
    async def story(trio: Trio) -> None:
        await trio.create("orders")
        await trio.nodes[3].stop()
        await trio.delete("orders")
        new = NewTopic("orders", partitions=1, replication_factor=3)
        await trio.ask(lambda client: create_topics(client, [new]))
        await trio.nodes[3].start()
        await until(lambda: trio.directories(3, "orders") == ["orders-0"])

    run(story)


def test_without_a_record_of_its_deletion_a_topic_that_the_metadata_do_not_know_stays() -> None:
    async def story(trio: Trio) -> None:
        await trio.create("orders")
        await trio.nodes[3].stop()
        await trio.delete("orders")
        for name in trio.store.names(DELETIONS):
            trio.store._server.change([Delete(f"{DELETIONS}/{name}")], 0)
        before = {path: content for path, content in trio.files(3).items() if path.startswith("orders-0")}
        await trio.nodes[3].start()
        await asyncio.sleep(30)
        assert trio.directories(3, "orders") == ["orders-0"]
        assert trio.files(3).items() >= before.items()
        assert "unknown-partitions" in trio.files(3)

    run(story)


def test_a_replica_that_is_moved_away_while_its_broker_is_away_is_deleted_when_that_is_back() -> None:
    async def story(trio: Trio) -> None:
        await trio.create("orders")
        await trio.nodes[3].stop()
        await trio.move("orders", to=(1, 2))
        assert trio.directories(3, "orders") == ["orders-0"]
        await trio.nodes[3].start()
        await until(lambda: not trio.directories(3, "orders"))
        assert trio.directories(1, "orders") == ["orders-0"]

    run(story)


def test_deleting_a_topic_with_the_longest_name_ends_no_broker_and_leaves_nothing() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(LONG, partitions=3)
        await trio.delete(LONG)
        await until(lambda: not any(trio.directories(each, LONG[:200]) for each in trio.nodes))
        await until(lambda: not any("t" * 200 in path for each in trio.nodes for path in trio.files(each)))
        assert not trio.exits
        for node in trio.nodes.values():
            await node.stop()
        await trio.begin()

    run(story)


def test_a_broker_starts_that_could_not_set_a_topic_with_a_long_name_aside_in_an_earlier_version() -> None:
    async def story(trio: Trio) -> None:
        await trio.nodes[3].stop()
        cut = f"{LONG[:216]}.{'0123456789abcdef' * 2}-delete"
        left = (cut, f"{LONG}-1", f"{LONG}-2")
        for directory in left:
            trio.nodes[3].disk.put(directory, FOREIGN)
        await trio.nodes[3].start()
        await asyncio.sleep(30)
        assert not trio.exits
        assert trio.nodes[3].broker is not None
        assert not missing_foreign_directories(trio.nodes[3]), "no deletion of theirs is recorded"

    run(story)


def test_a_cluster_brokers_directory_is_refused_without_its_cluster_and_left_as_it_is() -> None:
    async def story(trio: Trio) -> None:
        await trio.create("orders")
        node = trio.nodes[3]
        await node.stop()
        before = trio.files(3, but=(".lock",))
        make_store, node._make_store = node._make_store, None
        for _ in range(2):
            with pytest.raises(
                UserError, match=r"belongs to broker 3 of cluster .*start it with --zookeeper"
            ):
                await node.start()
        assert trio.files(3, but=(".lock",)) == before
        node._make_store = make_store
        await node.start()
        assert trio.directories(3, "orders") == ["orders-0"]

    run(story)


def test_a_cluster_brokers_directory_is_refused_in_another_cluster_and_left_as_it_is() -> None:
    async def story(trio: Trio) -> None:
        await trio.create("orders")
        node = trio.nodes[3]
        await node.stop()
        before = trio.files(3, but=(".lock",))
        another = SharedStore(trio.simulation, session_timeout_ms=2_000)
        stranger = trio.simulation.new_node(9, settings=SETTINGS, make_store=another.opener(9))
        await stranger.start()
        make_store, node._make_store = node._make_store, another.opener(3)
        with pytest.raises(UserError, match="start it with the ZooKeeper of its own cluster"):
            await node.start()
        assert trio.files(3, but=(".lock",)) == before
        node._make_store = make_store
        await node.start()

    run(story)


def test_the_directory_of_a_broker_that_is_alone_is_refused_in_a_cluster_and_left_as_it_is() -> None:
    async def story(trio: Trio) -> None:
        alone = trio.simulation.new_node(4, settings=SETTINGS)
        await alone.start()
        await alone.stop()
        trio.nodes[4] = alone
        before = trio.files(4, but=(".lock",))
        alone._make_store = trio.store.opener(4)
        for _ in range(2):
            with pytest.raises(
                UserError, match=r"belongs to a standalone broker.*start it without --zookeeper"
            ):
                await alone.start()
        assert trio.files(4, but=(".lock",)) == before

    run(story)
