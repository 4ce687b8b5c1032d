"""A broker of a cluster that starts, or stops, while the metadata store does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from penstock.base.errors import UserError
from penstock.cluster.renewable_store import StoreUnavailableError
from penstock.sim import Node, Simulation
from penstock.sim.loop import SimLoop
from penstock.sim.shared_store import SharedStore
from penstock.world.store import Operation, SessionState, Store
from penstock.world.store import StoreNode as StoreNode
from tests.sim.stories import PATIENCE_S

SESSION_MS = 6_000
LIMIT_MS = 20_000
AWAY_S = 5.0


class Watched:
    """A store that tells of each call before it is made."""

    def __init__(self, store: Store, on_call: Callable[[], None]) -> None:
        self._store = store
        self._on_call = on_call

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode:
        self._on_call()
        return await self._store.get(path, watch=watch)

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        self._on_call()
        return await self._store.children(path, watch=watch)

    async def multi(self, operations: Sequence[Operation]) -> None:
        self._on_call()
        await self._store.multi(operations)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        self._store.on_session(callback)

    async def close(self) -> None:
        await self._store.close()


class Single:
    """One broker whose store something befalls at the call of a number."""

    def __init__(self, *, at_call: int, strike: Callable[["Single"], None]) -> None:
        self.simulation = Simulation(at_call)
        self.store = SharedStore(self.simulation, session_timeout_ms=SESSION_MS)
        self.calls = 0
        self.has_struck = False
        self._at_call = at_call
        self._strike = strike
        settings = {
            "zookeeper.session.timeout.ms": SESSION_MS,
            "zookeeper.connection.timeout.ms": LIMIT_MS,
            "initial.broker.registration.timeout.ms": LIMIT_MS,
            "penstock.shutdown.timeout.ms": LIMIT_MS,
        }
        self.node: Node = self.simulation.new_node(1, settings=settings, make_store=self._opener())

    def _opener(self) -> Callable[[SimLoop], Awaitable[Store]]:
        begin = self.store.opener(1)

        async def open_store(loop: SimLoop) -> Store:
            return Watched(await begin(loop), self._count)

        return open_store

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self._at_call:
            self.has_struck = True
            self._strike(self)

    def cut_for_a_while(self) -> None:
        self.store.cut(1, silently=False)
        loop = self.simulation.loop
        loop.home.enter(loop.call_later, AWAY_S, self.store.mend, 1)

    def cut_for_good(self) -> None:
        self.store.cut(1, silently=False)

    def expire(self) -> None:
        self.store.expire(1)


async def start(single: Single) -> None:
    await single.node.start()


async def failure_of(starting: Coroutine[Any, Any, None]) -> UserError | None:
    try:
        await starting
    except UserError as error:
        return error
    return None


@pytest.mark.parametrize("strike", [Single.cut_for_a_while, Single.expire], ids=["cut", "expired"])
def test_a_start_survives_a_store_that_bounces_at_any_of_its_calls(strike: Callable[[Single], None]) -> None:
    for number in range(1, 1000):
        single = Single(at_call=number, strike=strike)
        with single.simulation as simulation:
            simulation.run(start(single), seconds_max=PATIENCE_S)
            assert single.node.is_running
            assert simulation.kernel.problems == []
        if not single.has_struck:
            break
    assert number > 10, "a start asks for much"


def test_a_start_is_given_up_with_a_reason_whenever_the_store_goes_away_for_good() -> None:
    for number in range(1, 1000):
        single = Single(at_call=number, strike=Single.cut_for_good)
        with single.simulation as simulation:
            error = simulation.run(failure_of(start(single)), seconds_max=PATIENCE_S)
            if error is None:
                break
            if isinstance(error, StoreUnavailableError):
                assert f"does not answer any more (tried for {LIMIT_MS} ms" in str(error)
                assert "start ZooKeeper" in str(error)
            else:
                assert "has registered, and ZooKeeper does not answer any more" in str(error)
            assert simulation.kernel.now < 3 * LIMIT_MS / 1000 + SESSION_MS / 1000
    assert number > 10


def test_a_broker_that_cannot_reach_the_store_stops_within_its_bound() -> None:
    single = Single(at_call=-1, strike=Single.expire)

    async def story() -> None:
        await single.node.start()
        single.store.cut(1, silently=True)
        await asyncio.sleep(SESSION_MS / 1000)
        broker = single.node.broker
        assert broker is not None
        begun = single.simulation.kernel.now
        await single.node.stop()
        assert single.simulation.kernel.now - begun < (LIMIT_MS + SESSION_MS) / 1000
        single.store.mend(1)
        await single.node.start()

    with single.simulation as simulation:
        simulation.run(story(), seconds_max=PATIENCE_S)
