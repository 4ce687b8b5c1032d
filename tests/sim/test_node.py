"""A broker in the simulation: it serves, stops, is killed, loses its power, and comes back with what it owes."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from penstock.base.errors import UserError
from penstock.client.addresses import parse_addresses
from penstock.client.client import Client
from penstock.client.connection import ConnectionLimits, open_connection
from penstock.client.errors import ConnectionLostError
from penstock.sim import Node, NodeCrashedError, Outsider, Simulation
from penstock.sim.phases import Phase
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.sim.stories import PATIENCE_S, as_client, make_topic, read, send


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation
        assert simulation.kernel.problems == []


@pytest.fixture
def node(simulation: Simulation) -> Node:
    return simulation.new_node(1)


@pytest.fixture
def someone(simulation: Simulation) -> Outsider:
    return simulation.new_outsider("client-1")


async def write(client: Client) -> None:
    await make_topic(client, "orders")
    await send(client, "orders", b"one", b"two", b"three")


async def look(client: Client) -> list[bytes | None]:
    return await read(client, "orders")


def test_a_client_produces_and_fetches_in_virtual_time(
    simulation: Simulation, node: Node, someone: Outsider
) -> None:
    async def story() -> list[bytes | None]:
        await node.start()
        await as_client(simulation, someone, node, write)
        return await as_client(simulation, someone, node, look)

    assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"one", b"two", b"three"]
    assert 0 < simulation.kernel.now < 2


@pytest.mark.parametrize("end", ["stop", "crash_process", "crash_machine"])
def test_what_was_acknowledged_is_there_after(
    simulation: Simulation, node: Node, someone: Outsider, end: str
) -> None:
    async def story() -> list[bytes | None]:
        await node.start()
        await as_client(simulation, someone, node, write)
        outcome = getattr(node, end)()
        if outcome is not None:
            await outcome
        assert not node.is_running
        await node.start()
        assert node.is_running
        assert node.lives == 2
        return await as_client(simulation, someone, node, look)

    assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"one", b"two", b"three"]


def read_after_power_cuts(seed: int) -> tuple[list[bytes | None], list[bool]]:
    """What a reader finds when all is over, and of some starts whether they were done when the power went."""
    were_done: list[bool] = []
    with Simulation(seed) as simulation:
        node = simulation.new_node(1)
        someone = simulation.new_outsider("client-1")
        chance = simulation.kernel.random("test")

        async def start() -> None:
            with contextlib.suppress(NodeCrashedError):
                await node.start()

        async def story() -> list[bytes | None]:
            await start()
            writing = asyncio.ensure_future(as_client(simulation, someone, node, write))
            await asyncio.sleep(chance.random() * 0.05)
            for _ in range(3):
                node.crash_machine()
                starting = asyncio.ensure_future(start())
                await asyncio.sleep(chance.random() * 0.01)
                were_done.append(starting.done())
                node.crash_machine()
                await starting
                await start()
            await writing
            return await as_client(simulation, someone, node, look)

        found = simulation.run(story(), seconds_max=PATIENCE_S)
        assert simulation.kernel.problems == []
    return found, were_done


def test_a_node_can_lose_its_power_at_any_moment_and_again_while_it_starts() -> None:
    were_done: list[bool] = []
    for seed in range(30):
        found, more = read_after_power_cuts(seed)
        assert found == [b"one", b"two", b"three"]
        were_done += more
    assert {*were_done} == {True, False}


def test_a_crash_in_the_middle_of_a_write_ends_the_life_there(
    simulation: Simulation, node: Node, someone: Outsider
) -> None:
    async def story() -> list[bytes | None]:
        await node.start()
        await as_client(simulation, someone, node, lambda client: make_topic(client, "orders"))
        node.disk.faults.strike_after(3, node.crash_process)
        sending = asyncio.ensure_future(
            as_client(
                simulation, someone, node, lambda client: send(client, "orders", b"one", b"two", b"three")
            )
        )
        while node.is_running:
            await asyncio.sleep(0.001)
        assert not sending.done()
        await node.start()
        await sending
        return await as_client(simulation, someone, node, look)

    assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"one", b"two", b"three"]


def read_after_a_kill(steps: int) -> tuple[list[bytes | None], list[Phase]]:
    """What a reader finds when the node was killed after so many callbacks, and what it was about then."""
    struck: list[Phase] = []
    with Simulation(steps) as simulation:
        node = simulation.new_node(1)
        someone = simulation.new_outsider("client-1")

        def crash() -> None:
            struck.append(node.phases.now)
            node.crash_process()

        async def write_under_threat(client: Client) -> None:
            await client.refresh()  # the first contact is not tried again
            node.strike_after(steps, crash)
            await write(client)

        async def story() -> list[bytes | None]:
            await node.start()
            writing = asyncio.ensure_future(as_client(simulation, someone, node, write_under_threat))
            while node.is_running and not writing.done():
                await asyncio.sleep(0.001)
            if not node.is_running:
                await node.start()
            await writing
            node.strike_after(10**9, crash)  # not any more
            return await as_client(simulation, someone, node, look)

        found = simulation.run(story(), seconds_max=PATIENCE_S)
        assert simulation.kernel.problems == []
    return found, struck


def test_a_node_can_be_killed_at_any_await(caplog: pytest.LogCaptureFixture) -> None:
    struck: list[Phase] = []
    for steps in range(1, 120, 2):
        found, phases = read_after_a_kill(steps)
        assert found == [b"one", b"two", b"three"]
        struck += phases
    assert len({*struck}) >= 4  # it was about quite different things
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_waiting_for_the_start_or_stop_of_a_node_that_crashes_fails(
    simulation: Simulation, node: Node
) -> None:
    async def story() -> None:
        starting = asyncio.ensure_future(node.start())
        await asyncio.sleep(0.0001)
        node.crash_process()
        with pytest.raises(NodeCrashedError):
            await starting
        await node.start()
        stopping = asyncio.ensure_future(node.stop())
        await asyncio.sleep(0)
        node.crash_machine()
        with pytest.raises(NodeCrashedError):
            await stopping
        await node.start()

    simulation.run(story(), seconds_max=PATIENCE_S)


def test_a_machine_that_is_back_resets_the_connections_it_had(
    simulation: Simulation, node: Node, someone: Outsider
) -> None:
    async def story() -> None:
        await node.start()
        (address,) = parse_addresses(node.address)
        limits = ConnectionLimits(request_timeout_ms=60_000)
        opening = open_connection(someone.loop, address, client_id=None, limits=limits)
        connection = await simulation.loop.spawn(someone.process, opening)
        node.crash_machine()
        await node.start()
        asking = connection.ask(MetadataRequest(topics=[]), MetadataResponse)
        with pytest.raises(ConnectionLostError, match="closed the connection"):
            await simulation.loop.spawn(someone.process, asking)

    simulation.run(story(), seconds_max=PATIENCE_S)


def test_a_node_that_cannot_start_says_why_and_may_try_again(simulation: Simulation, node: Node) -> None:
    async def story() -> None:
        node.disk.faults.full = True
        with pytest.raises(UserError):
            await node.start()
        assert node.process is None
        node.disk.faults.full = False
        await node.start()

    simulation.run(story(), seconds_max=PATIENCE_S)


def test_a_slow_disk_delays_the_answer_and_not_the_node(
    simulation: Simulation, node: Node, someone: Outsider
) -> None:
    async def story() -> tuple[float, float]:
        await node.start()
        await as_client(simulation, someone, node, write)
        node.disk.faults.sync_delay_s = 5.0
        began = simulation.kernel.now
        sending = asyncio.ensure_future(
            as_client(simulation, someone, node, lambda client: send(client, "orders", b"four"))
        )
        assert await as_client(simulation, someone, node, look) == [b"one", b"two", b"three"]
        looked_s = simulation.kernel.now - began
        await sending
        return looked_s, simulation.kernel.now - began

    looked_s, sent_s = simulation.run(story(), seconds_max=PATIENCE_S)
    assert looked_s < 1
    assert sent_s >= 5


def test_a_node_s_clock_is_its_own_and_outlives_it(simulation: Simulation, node: Node) -> None:
    async def story() -> None:
        await node.start()
        assert node.broker is not None
        node.clock.jump(60_000)
        loop = node.broker.services.node.world.loop
        assert loop.now_ms() == simulation.loop.home.clock.now_ms() + 60_000
        node.crash_machine()
        await node.start()
        loop = node.broker.services.node.world.loop
        assert loop.now_ms() == simulation.loop.home.clock.now_ms() + 60_000

    simulation.run(story(), seconds_max=PATIENCE_S)


def test_the_phase_a_node_is_in_is_known(simulation: Simulation, node: Node, someone: Outsider) -> None:
    seen: dict[Phase, None] = {}

    async def watch() -> None:
        while True:
            seen[node.phases.now] = None
            await asyncio.sleep(0.00005)

    async def story() -> None:
        watching = asyncio.ensure_future(watch())
        await asyncio.sleep(0.001)
        await node.start()
        await as_client(simulation, someone, node, write)
        await as_client(simulation, someone, node, look)
        await node.stop()
        watching.cancel()

    simulation.run(story(), seconds_max=PATIENCE_S)
    assert list(seen)[:2] == [Phase.DOWN, Phase.RECOVERY]
    assert list(seen)[-1] == Phase.STOP
    assert {Phase.IDLE, Phase.FLUSH} <= seen.keys()


def test_a_killed_node_does_not_answer_and_a_client_waits_for_its_next_life(
    simulation: Simulation, node: Node, someone: Outsider
) -> None:
    async def story() -> list[bytes | None]:
        await node.start()
        await as_client(simulation, someone, node, write)

        async def look_twice(client: Client) -> list[bytes | None]:
            await read(client, "orders")
            node.crash_process(silently=True)
            looking = client.loop.create_task(read(client, "orders"))
            await client.loop.sleep(120)
            assert not looking.done()
            await simulation.loop.spawn(simulation.loop.home, node.start())
            return await looking

        return await as_client(simulation, someone, node, look_twice)

    assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"one", b"two", b"three"]
