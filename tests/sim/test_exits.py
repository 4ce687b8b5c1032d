"""Brokers that end by themselves, since their data directories fail: as processes do, under a supervisor or not."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest

from penstock.client.client import ClientSettings
from penstock.client.errors import ClientError
from penstock.services.replicas.replica import Replica
from penstock.sim import Node, Simulation
from penstock.sim.checkers import CrashKind, History
from penstock.sim.fault_injector import FaultInjector
from penstock.sim.shared_store import SharedStore
from tests.sim.stories import PATIENCE_S, as_client, make_topic, read, send

SESSION_MS = 60_000
IMPATIENT = ClientSettings(patience_ms=1_000)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation
        assert simulation.kernel.problems == []


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.05)


async def fail_directory(simulation: Simulation, node: Node) -> None:
    """Let a sync of the broker's own files fail; returns when the broker has ended of it."""
    broker, process = node.broker, node.process
    assert broker is not None
    assert process is not None

    async def write() -> None:
        with contextlib.suppress(OSError):
            await broker.services.logs.replicas.checkpoints.write_checkpoints()

    node.disk.faults.fail_syncs()
    simulation.loop.spawn(process, write())
    await until(lambda: not node.is_running)


def test_a_broker_whose_directory_fails_exits_and_starts_again_with_what_it_owes(
    simulation: Simulation,
) -> None:
    node, someone = simulation.new_node(1), simulation.new_outsider("client-1")
    exits: list[int] = []
    node.on_exit = lambda: exits.append(node.lives)

    async def story() -> list[bytes | None]:
        await node.start()
        await as_client(simulation, someone, node, lambda client: make_topic(client, "orders"))
        await as_client(simulation, someone, node, lambda client: send(client, "orders", b"one"))
        await fail_directory(simulation, node)
        await node.start()
        return await as_client(simulation, someone, node, lambda client: read(client, "orders"))

    assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"one"]
    assert exits == [1]


def test_a_log_that_fails_does_not_make_its_broker_exit(simulation: Simulation) -> None:
    node, someone = simulation.new_node(1), simulation.new_outsider("client-1")

    async def story() -> None:
        await node.start()
        await as_client(simulation, someone, node, lambda client: make_topic(client, "orders"))
        await as_client(simulation, someone, node, lambda client: send(client, "orders", b"one"))
        node.disk.faults.fail_appends()
        with pytest.raises(ClientError):
            await as_client(
                simulation, someone, node, lambda client: send(client, "orders", b"two"), settings=IMPATIENT
            )
        assert node.broker is not None
        partition = node.broker.services.logs.replicas.find_replica("orders", 0)
        assert isinstance(partition, Replica)
        assert partition.log.failed is not None
        await asyncio.sleep(60)
        assert node.is_running

    simulation.run(story(), seconds_max=PATIENCE_S)


def test_a_storm_starts_a_broker_again_that_has_exited(simulation: Simulation) -> None:
    node, history = simulation.new_node(1), History()
    injector = FaultInjector(simulation, 1, history)

    async def story() -> None:
        await injector.begin()
        await fail_directory(simulation, node)
        await injector.settle()

    simulation.run(story(), seconds_max=PATIENCE_S)
    assert node.lives == 2
    assert [crash.kind for crash in history.crashes] == [CrashKind.PROCESS]


def test_a_broker_that_exits_while_it_stops_has_not_stopped_cleanly(simulation: Simulation) -> None:
    node, history = simulation.new_node(1), History()
    injector = FaultInjector(simulation, 1, history)

    async def story() -> None:
        await injector.begin()
        node.disk.faults.syncs_fail = True
        await injector.restart("restart")

    simulation.loop.call_later(5.0, injector.heal)
    simulation.run(story(), seconds_max=PATIENCE_S)
    assert {crash.kind for crash in history.crashes} == {CrashKind.PROCESS}


def test_the_others_hear_of_it_long_before_its_session_would_have_ended(simulation: Simulation) -> None:
    store = SharedStore(simulation, session_timeout_ms=SESSION_MS)
    nodes = {
        node_id: simulation.new_node(
            node_id,
            settings={"zookeeper.session.timeout.ms": SESSION_MS},
            make_store=store.opener(node_id),
        )
        for node_id in (1, 2)
    }

    async def story() -> float:
        for node in nodes.values():
            await node.start()
        await fail_directory(simulation, nodes[2])
        failed_at = simulation.kernel.now
        await until(lambda: 2 not in store.living() and store.brokers()[2].fenced)
        return simulation.kernel.now - failed_at

    assert simulation.run(story(), seconds_max=PATIENCE_S) < SESSION_MS / 1000 / 10
