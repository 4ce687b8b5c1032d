"""The last replica standing: a machine that lost its power unnoticed is left alone in the in-sync set.

What was acknowledged is on the others, which were stopped in order. One of them has to lead.
"""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from penstock.client.client import Client
from penstock.client.configs import Resource, ResourceType, alter_configs
from penstock.client.topics import NewTopic, create_topics
from penstock.cluster.metadata import NO_LEADER, PartitionState
from penstock.services.configs import ALL_BROKERS
from penstock.sim import Node, Outsider, Simulation
from penstock.sim.shared_store import SharedStore
from tests.sim.stories import PATIENCE_S, as_client, read, send

TOPIC = "orders"
SENT = [b"one", b"two", b"three"]
WRITTEN_DOWN_S = 6.0  # high watermarks are by then
SESSION_MS = 60_000  # longer than two stops take


class Trio:
    """Three brokers, a topic with a replica on each, and what the metadata says of its partition. A fourth one is the
    controller, so that it sees the others leave.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.store = SharedStore(simulation, session_timeout_ms=SESSION_MS)
        self.someone: Outsider = simulation.new_outsider("client-1")
        settings = {"zookeeper.session.timeout.ms": SESSION_MS, "min.insync.replicas": 2}
        self.nodes: dict[int, Node] = {
            node_id: simulation.new_node(node_id, settings=settings, make_store=self.store.opener(node_id))
            for node_id in (1, 2, 3, 4)
        }

    @property
    def state(self) -> PartitionState:
        topic = self.store.topic(TOPIC)
        assert topic is not None
        return topic.partitions[0]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.05)

    async def begin(self) -> None:
        """All run, and three records are acknowledged by all."""
        for node_id in (4, 1, 2, 3):
            await self.start(node_id)
        await as_client(self.simulation, self.someone, self.nodes[1], self._write)
        assert set(self.state.isr) == {1, 2, 3}

    async def start(self, node_id: int) -> None:
        """Return when the controller knows of it."""
        await self.nodes[node_id].start()
        await self.until(lambda: not self.store.brokers()[node_id].fenced)

    async def _write(self, client: Client) -> None:
        await create_topics(client, [NewTopic(TOPIC, assignments={0: (1, 2, 3)})])
        await send(client, TOPIC, *SENT)

    async def read(self, at: int) -> list[bytes | None]:
        return await as_client(
            self.simulation, self.someone, self.nodes[at], lambda client: read(client, TOPIC)
        )

    async def leave_alone(self, node_id: int) -> None:
        """One loses its power, and the others are stopped before it is fenced."""
        self.nodes[node_id].crash_machine()
        for other in self.nodes.values():
            if other.node_id not in (node_id, 4):
                await other.stop()
        await self.until(lambda: self.state.isr == (node_id,))


@pytest.fixture
def trio() -> Iterator[Trio]:
    with Simulation(1) as simulation:
        yield Trio(simulation)
        assert simulation.kernel.problems == []


def test_the_last_isr_member_does_not_lead_after_an_unclean_shutdown(trio: Trio) -> None:
    async def story() -> list[bytes | None]:
        await trio.begin()
        await trio.leave_alone(1)
        (elr,) = trio.state.elr
        await trio.start(1)
        assert (trio.state.leader, trio.state.isr) == (NO_LEADER, ())
        assert trio.state.elr == (elr,)
        # The replica that left the ISR while it had min.insync.replicas members may lack committed records.
        (other,) = {2, 3} - {elr}
        await trio.start(other)
        assert trio.state.leader == NO_LEADER
        await trio.start(elr)
        await trio.until(lambda: set(trio.state.isr) == {1, 2, 3})
        assert trio.state.elr == ()
        return await trio.read(1)

    assert trio.simulation.run(story(), seconds_max=PATIENCE_S) == SENT


def test_a_lower_cluster_default_of_min_insync_replicas_empties_the_elr(trio: Trio) -> None:
    async def ask_for_fewer(client: Client) -> None:
        await alter_configs(
            client, Resource(ResourceType.BROKER, ALL_BROKERS), set_to={"min.insync.replicas": "1"}
        )
        assert trio.state.elr == ()  # before it is answered
        await send(client, TOPIC, b"four")

    async def story() -> list[bytes | None]:
        await trio.begin()
        for node_id in (2, 3):
            await trio.nodes[node_id].stop()
        await trio.until(lambda: trio.state.elr == (3,))
        await as_client(trio.simulation, trio.someone, trio.nodes[4], ask_for_fewer)
        return await trio.read(1)

    assert trio.simulation.run(story(), seconds_max=PATIENCE_S) == [*SENT, b"four"]


def test_an_elr_member_that_leads_alone_after_a_crash_serves_all_committed_records(trio: Trio) -> None:
    async def story() -> list[bytes | None]:
        await trio.begin()
        await asyncio.sleep(WRITTEN_DOWN_S)
        for node_id in (1, 2, 3):
            trio.nodes[node_id].crash_process()
        await trio.until(lambda: trio.state.leader == NO_LEADER)
        (elr,), (member,) = trio.state.elr, trio.state.isr
        await trio.start(member)
        assert trio.state.isr == ()
        await trio.start(elr)
        assert (trio.state.leader, trio.state.isr) == (elr, (elr,))
        trio.nodes[member].crash_process()
        return await trio.read(elr)

    assert trio.simulation.run(story(), seconds_max=PATIENCE_S) == SENT


def test_an_elr_member_leads_while_the_last_isr_member_is_away(trio: Trio) -> None:
    async def story() -> list[bytes | None]:
        await trio.begin()
        await trio.leave_alone(1)
        (elr,) = trio.state.elr
        await trio.start(elr)
        await trio.until(lambda: trio.state.leader == elr)
        assert (trio.state.isr, trio.state.elr) == ((elr,), (1,))
        await trio.start(1)
        await trio.until(lambda: set(trio.state.isr) == {1, elr})
        return await trio.read(1)

    assert trio.simulation.run(story(), seconds_max=PATIENCE_S) == SENT
