"""The metadata store on a real Apache ZooKeeper: the contract on one server, and three that lose one."""

import itertools
from collections.abc import Awaitable, Callable, Iterator

import pytest
from kazoo.client import KazooClient

from peers.zookeeper import ZooKeeper
from penstock.cluster.zookeeper import ZooKeeperStore
from penstock.world.real_loop import RealLoop, run
from penstock.world.real_work import RealWork
from penstock.world.store import ConnectionLossError, Create, SessionState, Set, Store
from tests.cluster.cuttable_link import CuttableLink
from tests.cluster.store_contract import Heard, SharedStoreContract, SharedStory, until_data

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("zookeeper")]

# Longer than an election takes on a busy machine; the tests never wait for it to pass.
SESSION_TIMEOUT_MS = 30_000


class Sessions:
    """Sessions with a real ensemble, each over a link of its own; all closed at the end."""

    def __init__(self, addresses: str, root: str) -> None:
        self._addresses = addresses
        self._root = root
        self._work = RealWork(threads=2)
        self._links: dict[Store, CuttableLink] = {}
        self._all_links: list[CuttableLink] = []

    async def open(self) -> ZooKeeperStore:
        link = CuttableLink(self._addresses)
        self._all_links.append(link)
        await link.open()
        store = await self.connect(link.address)
        self._links[store] = link
        return store

    async def connect(self, addresses: str) -> ZooKeeperStore:
        return await ZooKeeperStore.connect(
            addresses,
            loop=RealLoop(),
            work=self._work,
            root=self._root,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connect_timeout_ms=60_000,
        )

    async def expire(self, store: Store) -> None:
        """A client that knows a session's id and password can end it from another connection."""
        assert isinstance(store, ZooKeeperStore)
        twin = KazooClient(hosts=self._addresses, client_id=store._client.client_id)

        def end() -> None:
            twin.start(60)
            twin.stop()
            twin.close()

        await self._work.run(end)

    def cut(self, store: Store) -> None:
        self._links[store].cut()

    def mend(self, store: Store) -> None:
        self._links[store].mend()

    async def close(self) -> None:
        for store, link in self._links.items():
            link.mend()
            await store.close()
        for link in self._all_links:
            await link.close()
        self._work.close()


@pytest.fixture(scope="module")
def zookeeper(needs_zookeeper: None) -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


class TestZooKeeperStore(SharedStoreContract):
    _roots = itertools.count()

    @pytest.fixture(autouse=True)
    def _keep_server(self, zookeeper: ZooKeeper) -> None:
        self._addresses = zookeeper.addresses

    def run_shared(self, story: SharedStory) -> None:
        async def main() -> None:
            sessions = Sessions(self._addresses, root=f"/test-{next(self._roots)}")
            try:
                await story(sessions)
            finally:
                await sessions.close()

        run(main)


def test_nodes_below_the_root_are_all_that_a_store_sees(zookeeper: ZooKeeper) -> None:
    async def main() -> None:
        above = Sessions(zookeeper.addresses, root="/above")
        below = Sessions(zookeeper.addresses, root="/above/deep/below")
        try:
            await (await below.open()).multi([Create("/a", b"1")])
            assert (await (await above.open()).get("/deep/below/a")).data == b"1"
        finally:
            await above.close()
            await below.close()

    run(main)


def test_a_start_without_an_ensemble_is_given_up_in_time() -> None:
    async def main() -> None:
        work = RealWork(threads=1)
        with pytest.raises(ConnectionLossError, match=r"no answer within 50 ms"):
            await ZooKeeperStore.connect("127.0.0.1:1", loop=RealLoop(), work=work, connect_timeout_ms=50)
        work.close()

    run(main)


async def persist(heard: Heard, call: Callable[[], Awaitable[None]]) -> None:
    """Do something that may be repeated until the link holds for long enough: an election takes several tries."""
    while True:
        try:
            await call()
            return
        except ConnectionLossError:
            await heard.until(SessionState.CONNECTED)


@pytest.mark.needs("zookeeper")
def test_a_session_outlives_the_server_it_was_connected_to() -> None:
    async def main(ensemble: ZooKeeper) -> None:
        sessions = Sessions(ensemble.addresses, root="/three")
        leader = next(server for server in ensemble.servers if server.mode() == "leader")
        others = [server.address for server in ensemble.servers if server is not leader]
        store, watcher = await sessions.connect(ensemble.addresses), await sessions.connect(",".join(others))
        heard = Heard(store)
        await heard.until(SessionState.CONNECTED)
        await store.multi([Create("/brokers"), Create("/brokers/1", ephemeral=True)])

        leader.kill()

        # Wherever it was connected to: without a leader no server keeps its clients.
        await heard.until(SessionState.SUSPENDED)
        await persist(heard, lambda: store.multi([Set("/brokers/1", b"still here")]))
        await persist(Heard(watcher), lambda: until_data(watcher, "/brokers/1", b"still here"))
        await store.close()
        await watcher.close()
        await sessions.close()

    with ZooKeeper(servers=3) as ensemble:
        run(lambda: main(ensemble))
