"""The simulated metadata store: the contract, under many seeds' delays, and sessions of processes that die."""

import asyncio
from collections.abc import Iterator

import pytest

from penstock.client.client import Client
from penstock.sim import Outsider, Simulation
from penstock.sim.store import SimStore
from penstock.sim.store_server import StoreServer
from penstock.world.store import Create, NoNodeError, SessionExpiredError, SessionState, Set, Store
from tests.cluster.store_contract import Bell, Heard, SharedStoreContract, SharedStory, until_children
from tests.sim.stories import PATIENCE_S, as_client, make_topic, read, send

SECONDS_MAX = 3600


class Sessions:
    """Sessions with a simulated server, each from a process of its own."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._count = 0
        zookeeper = simulation.new_outsider("zookeeper")
        self.server = StoreServer(zookeeper.loop, simulation.kernel.random("store"))

    async def open(self) -> SimStore:
        return await self.server.open(self.new_process().loop)

    def new_process(self) -> Outsider:
        self._count += 1
        return self._simulation.new_outsider(f"process-{self._count}")

    async def expire(self, store: Store) -> None:
        assert isinstance(store, SimStore)
        self.server.expire(store)

    def cut(self, store: Store) -> None:
        assert isinstance(store, SimStore)
        self.server.cut(store)

    def mend(self, store: Store) -> None:
        assert isinstance(store, SimStore)
        self.server.mend(store)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation
        assert simulation.kernel.problems == []


async def tell(story: SharedStory, simulation: Simulation) -> None:
    await story(Sessions(simulation))


class TestSimulatedStore(SharedStoreContract):
    def run_shared(self, story: SharedStory) -> None:
        for seed in range(20):
            with Simulation(seed) as simulation:
                simulation.run(tell(story, simulation), seconds_max=SECONDS_MAX)
                assert simulation.kernel.problems == []


def test_the_session_of_a_process_that_was_killed_expires(simulation: Simulation) -> None:
    async def story() -> float:
        sessions = Sessions(simulation)
        victim = sessions.new_process()
        store, watcher = await sessions.server.open(victim.loop), await sessions.open()
        await store.multi([Create("/brokers"), Create("/brokers/1", ephemeral=True)])
        await until_children(watcher, "/brokers", ["1"])
        victim.process.kill()
        killed_at = simulation.kernel.now
        await until_children(watcher, "/brokers", [])
        return simulation.kernel.now - killed_at

    assert 3 < simulation.run(story(), seconds_max=SECONDS_MAX) < 10


def test_a_session_lives_for_as_long_as_its_process_does(simulation: Simulation) -> None:
    async def story() -> None:
        store = await Sessions(simulation).open()
        await store.multi([Create("/e", ephemeral=True)])
        await asyncio.sleep(1000)
        await store.get("/e")

    simulation.run(story(), seconds_max=SECONDS_MAX)


def test_a_session_that_was_cut_off_for_too_long_learns_that_it_expired(simulation: Simulation) -> None:
    async def story() -> None:
        sessions = Sessions(simulation)
        store, watcher = await sessions.open(), await sessions.open()
        await store.multi([Create("/e", ephemeral=True)])
        heard = Heard(store)
        sessions.cut(store)
        await asyncio.sleep(30)
        with pytest.raises(NoNodeError):
            await watcher.get("/e")
        sessions.mend(store)
        await heard.until(SessionState.EXPIRED)
        with pytest.raises(SessionExpiredError):
            await store.get("/e")

    simulation.run(story(), seconds_max=SECONDS_MAX)


def test_a_way_that_broke_silently_is_noticed_before_the_session_expires(simulation: Simulation) -> None:
    async def story() -> None:
        sessions = Sessions(simulation)
        store = await sessions.open()
        await store.multi([Create("/e", ephemeral=True)])
        heard = Heard(store)
        sessions.server.cut(store, silently=True)
        await heard.until(SessionState.SUSPENDED)
        sessions.mend(store)
        await heard.until(SessionState.CONNECTED)
        await store.multi([Set("/e", b"mine")])

    simulation.run(story(), seconds_max=SECONDS_MAX)


def test_a_broker_keeps_its_metadata_there(simulation: Simulation) -> None:
    async def write(client: Client) -> None:
        await make_topic(client, "orders")
        await send(client, "orders", b"one")

    async def look(client: Client) -> list[bytes | None]:
        return await read(client, "orders")

    async def story() -> list[bytes | None]:
        sessions, someone = Sessions(simulation), simulation.new_outsider("client-1")
        node = simulation.new_node(1, make_store=sessions.server.open)
        await node.start()
        await as_client(simulation, someone, node, write)
        assert await (await sessions.open()).children("/topics") == ["orders"]
        node.crash_machine()
        await node.start()
        return await as_client(simulation, someone, node, look)

    assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"one"]


def test_watches_are_late_and_not_always_by_the_same() -> None:
    async def story(simulation: Simulation) -> float:
        sessions = Sessions(simulation)
        writer, reader = await sessions.open(), await sessions.open()
        await writer.multi([Create("/a")])
        bell = Bell()
        await reader.get("/a", watch=bell)
        begun = simulation.kernel.now
        await writer.multi([Set("/a", b"1")])
        await bell.wait()
        return simulation.kernel.now - begun

    delays = []
    for seed in range(100):
        with Simulation(seed) as simulation:
            delays.append(simulation.run(story(simulation), seconds_max=SECONDS_MAX))
    assert len(set(delays)) == 100
    assert max(delays) > 10 * sorted(delays)[50]


def test_equal_seeds_give_equal_histories() -> None:
    def history(seed: int) -> str:
        async def story(simulation: Simulation) -> None:
            sessions = Sessions(simulation)
            stores = [await sessions.open() for _ in range(3)]
            await stores[0].multi([Create("/a")])
            await asyncio.gather(*(store.multi([Set("/a", b"x")]) for store in stores))
            sessions.cut(stores[1])
            await asyncio.sleep(60)

        with Simulation(seed) as simulation:
            simulation.run(story(simulation), seconds_max=SECONDS_MAX)
            return simulation.kernel.history_hash

    assert history(1) == history(1)
    assert history(1) != history(2)
