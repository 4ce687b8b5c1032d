"""A machine that loses power for a moment: it closes no connection, and is back before its session expires.

The others' connections lead to its earlier life, and never end by themselves.
"""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from penstock.client.connection import ConnectionLimits
from penstock.sim import Node, Simulation
from penstock.sim.shared_store import SharedStore
from tests.sim.stories import PATIENCE_S

HOUR_MS = 3_600_000
SESSION_MS = 60_000


@pytest.fixture(autouse=True)
def hour_long_request_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ConnectionLimits(request_timeout_ms=HOUR_MS, in_flight_max=100)
    monkeypatch.setattr("penstock.cluster.peers._LIMITS", limits)


class Trio:
    """Three brokers; the first is the controller."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.store = SharedStore(simulation, session_timeout_ms=SESSION_MS)
        settings = {"zookeeper.session.timeout.ms": SESSION_MS}
        self.nodes: dict[int, Node] = {
            node_id: simulation.new_node(node_id, settings=settings, make_store=self.store.opener(node_id))
            for node_id in (1, 2, 3)
        }

    async def begin(self) -> None:
        for node in self.nodes.values():
            await node.start()

    async def begin_another_life(self, node_id: int) -> None:
        epoch = self.store.brokers()[node_id].epoch
        self.nodes[node_id].crash_process(silently=True)
        await self.nodes[node_id].start()
        await self.until(
            lambda: all(
                node.broker is not None and node.broker.services.cluster.image.brokers[node_id].epoch > epoch
                for node in self.nodes.values()
            )
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.05)

    async def ask_controller(self, *, at: int) -> None:
        node = self.nodes[at]
        assert node.broker is not None
        assert node.process is not None
        link = node.broker.services.cluster.controller_link
        assert not link.is_here
        first = await self.simulation.loop.spawn(node.process, link.allocate_producer_ids())
        assert isinstance(first, int), first


@pytest.fixture
def trio() -> Iterator[Trio]:
    with Simulation(1) as simulation:
        yield Trio(simulation)
        assert simulation.kernel.problems == []


def test_the_controller_is_asked_in_its_present_life(trio: Trio) -> None:
    async def story() -> None:
        await trio.begin()
        await trio.ask_controller(at=2)
        await trio.begin_another_life(1)
        await trio.ask_controller(at=2)

    trio.simulation.run(story(), seconds_max=PATIENCE_S)


def test_a_process_that_dies_in_its_second_life_is_missed_at_once(trio: Trio) -> None:
    async def story() -> None:
        await trio.begin()
        await trio.begin_another_life(3)
        await asyncio.sleep(1.0)  # others connect to it
        died_at = trio.simulation.kernel.now
        trio.nodes[3].crash_process()
        await trio.until(lambda: trio.store.brokers()[3].fenced)
        assert trio.simulation.kernel.now - died_at < SESSION_MS / 1000 / 10

    trio.simulation.run(story(), seconds_max=PATIENCE_S)
