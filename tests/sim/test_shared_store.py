"""Nodes that share a metadata store: their sessions, and a start that loses one."""

import asyncio

from penstock.sim import Simulation
from penstock.sim.convergence import differences
from penstock.sim.shared_store import SharedStore
from tests.sim.stories import PATIENCE_S


def test_nodes_that_start_together_come_to_agree() -> None:
    with Simulation(1) as simulation:
        store = SharedStore(simulation, session_timeout_ms=2_000)
        nodes = [simulation.new_node(number, make_store=store.opener(number)) for number in (1, 2, 3)]

        async def story() -> None:
            await asyncio.gather(*(node.start() for node in nodes))
            while differences(store, nodes, all_online=True):
                await asyncio.sleep(0.1)
            store.cut(2, silently=True)
            await asyncio.sleep(5)
            assert differences(store, nodes, all_online=True) != []
            store.mend(2)
            while differences(store, nodes, all_online=True):
                await asyncio.sleep(0.1)

        simulation.run(story(), seconds_max=PATIENCE_S)
        assert simulation.kernel.problems == []


def test_a_broker_whose_session_ends_before_the_controller_has_acted_starts_with_the_next() -> None:
    with Simulation(1) as simulation:
        store = SharedStore(simulation, session_timeout_ms=2_000)
        node = simulation.new_node(1, make_store=store.opener(1))
        registrations: list[str] = []

        def see(path: str) -> None:
            if path == "/brokers/1":
                registrations.append(path)
                if len(registrations) == 1:
                    store.expire(1)

        store.on_change(see)

        async def story() -> None:
            await node.start()
            assert store.brokers()[1].epoch == 2
            assert differences(store, [node], all_online=True) == []

        simulation.run(story(), seconds_max=PATIENCE_S)
