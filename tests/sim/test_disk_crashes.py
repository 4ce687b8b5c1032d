"""A node that crashes, in the middle of a change of its disk or between two, comes back with all it acknowledged."""

import asyncio

import pytest

from penstock.client.client import Client
from penstock.services.replicas.replica import Replica
from penstock.sim import Node, NodeCrashedError, Outsider, Simulation
from penstock.sim.phases import Phase
from tests.sim.stories import PATIENCE_S, as_client, make_topic, read, send


@pytest.mark.parametrize("crash", ["crash_process", "crash_machine"])
def test_a_crash_in_the_middle_of_a_change_loses_nothing_acknowledged(crash: str) -> None:
    struck: dict[Phase, None] = {}
    for changes in range(0, 60, 2):
        story = StruckStory(changes, crash)
        story.tell()
        if story.struck_in is not None:
            struck[story.struck_in] = None
    assert {Phase.RECOVERY, Phase.APPEND, Phase.FLUSH, Phase.METADATA} <= struck.keys()


class StruckStory:
    """A producer sends ten records, one after the other; the node crashes once, so many changes from its start."""

    def __init__(self, changes: int, crash: str) -> None:
        self._changes = changes
        self._crash = crash
        self._simulation = Simulation(changes)
        self._node = self._simulation.new_node(1)
        self.struck_in: Phase | None = None

    def tell(self) -> None:
        with self._simulation as simulation:
            values = simulation.run(self._story(), seconds_max=PATIENCE_S)
            assert values == [b"%d" % number for number in range(10)], (self._changes, self.struck_in)
            assert simulation.kernel.problems == []

    async def _story(self) -> list[bytes | None]:
        simulation, node = self._simulation, self._node
        someone = simulation.new_outsider("client-1")
        node.disk.faults.strike_after(self._changes, self._strike)
        while not node.is_running:
            await self._start()
        writing = asyncio.ensure_future(as_client(simulation, someone, node, _write))
        while not writing.done():
            if node.process is None:
                await self._start()
            await asyncio.sleep(0.5)
        await writing
        return await as_client(simulation, someone, node, lambda client: read(client, "orders"))

    def _strike(self) -> None:
        self.struck_in = self._node.phases.now
        getattr(self._node, self._crash)()

    async def _start(self) -> None:
        try:
            await self._node.start()
        except NodeCrashedError:
            assert self.struck_in is Phase.RECOVERY


async def _write(client: Client) -> None:
    await make_topic(client, "orders")
    await send(client, "orders", *(b"%d" % number for number in range(10)))


def test_a_topic_whose_creator_was_killed_survives_a_power_cut_once_something_in_it_was_flushed() -> None:
    for seed in range(12):
        with Simulation(seed) as simulation:
            node = simulation.new_node(1)
            someone = simulation.new_outsider("client-1")

            async def story(
                simulation: Simulation = simulation, node: Node = node, someone: Outsider = someone
            ) -> list[bytes | None]:
                await node.start()
                await as_client(simulation, someone, node, lambda client: make_topic(client, "orders"))
                node.crash_process()
                await node.start()
                await as_client(simulation, someone, node, lambda client: send(client, "orders", b"flushed"))
                node.crash_machine()
                await node.start()
                return await as_client(simulation, someone, node, lambda client: read(client, "orders"))

            assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"flushed"]


def test_a_broker_shows_the_end_of_a_flushed_log_as_high_as_before_it_was_killed_from_its_first_answer_on() -> (
    None
):
    with Simulation(1) as simulation:
        node = simulation.new_node(1)
        someone = simulation.new_outsider("client-1")

        async def story() -> tuple[int, float]:
            await node.start()
            await as_client(simulation, someone, node, lambda client: make_topic(client, "orders"))
            await as_client(simulation, someone, node, lambda client: send(client, "orders", b"flushed"))
            node.crash_process()
            node.disk.faults.sync_delay_s = 5.0
            began_s = simulation.kernel.now
            await node.start()
            assert node.broker is not None
            partition = node.broker.services.logs.replicas.find_replica("orders", 0)
            assert isinstance(partition, Replica)
            return partition.high_watermark, simulation.kernel.now - began_s

        high_watermark, took_s = simulation.run(story(), seconds_max=PATIENCE_S)
        assert high_watermark == 1
        assert took_s >= 5.0, "the start waited for the slow sync"
