"""The contract of every Store. A test class inherits `StoreContract` and provides how to run a story on its store.

A store that several processes share promises more: `SharedStoreContract`, told with an `Ensemble`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from penstock.world.store import (
    BadVersionError,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    Set,
    Store,
    StoreError,
    StoreNode,
)

Story = Callable[[Store], Awaitable[None]]

# Long enough for any machine: what is awaited comes by itself.
PATIENCE_S = 60


class Ensemble(Protocol):
    """Where sessions with one tree come from, and what may happen to them."""

    async def open(self) -> Store:
        """A store with a session of its own."""
        ...

    async def expire(self, store: Store) -> None:
        """Have the ensemble end the session, as if nothing had been heard of it for too long."""
        ...

    def cut(self, store: Store) -> None:
        """Break the link between the store and the ensemble; what is under way is lost."""
        ...

    def mend(self, store: Store) -> None:
        """The link works again; the store finds out by itself."""
        ...


SharedStory = Callable[[Ensemble], Awaitable[None]]


class Bell:
    """A watch that can be waited for."""

    def __init__(self) -> None:
        self.rings = 0
        self._rung = asyncio.Event()

    def __call__(self) -> None:
        self.rings += 1
        self._rung.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self._rung.wait(), timeout=PATIENCE_S)


class Heard:
    """The session events of a store, in their order."""

    def __init__(self, store: Store) -> None:
        self._states: asyncio.Queue[SessionState] = asyncio.Queue()
        store.on_session(self._states.put_nowait)

    async def until(self, state: SessionState) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await self._states.get() is not state:
                pass


async def until_children(store: Store, path: str, wanted: list[str]) -> None:
    """Wait, by watches, until the names below a node are those wanted."""
    while True:
        bell = Bell()
        if await store.children(path, watch=bell) == wanted:
            return
        await bell.wait()


async def until_data(store: Store, path: str, wanted: bytes) -> None:
    """Wait, by watches, until a node holds what is wanted."""
    while True:
        bell = Bell()
        if (await store.get(path, watch=bell)).data == wanted:
            return
        await bell.wait()


async def settle(store: Store) -> None:
    """Give watches that are on their way the time to arrive: they come before the answer to a later write."""
    await store.multi([Create("/settle")])
    await store.multi([Delete("/settle")])


class StoreContract:
    def run(self, story: Story) -> None:
        """Run the story with a fresh, empty store."""
        raise AssertionError("the test class brings its own store")

    def test_a_node_holds_what_was_set_and_counts_its_versions(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a", b"one")])
            assert await store.get("/a") == StoreNode(b"one", 0)
            await store.multi([Set("/a", b"two")])
            await store.multi([Set("/a", b"three", version=1)])
            assert await store.get("/a") == StoreNode(b"three", 2)

        self.run(story)

    def test_a_recreated_node_counts_from_zero(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a"), Set("/a", b"x"), Delete("/a", version=1), Create("/a", b"y")])
            assert await store.get("/a") == StoreNode(b"y", 0)

        self.run(story)

    def test_a_missing_node_is_refused_everywhere(self) -> None:
        async def story(store: Store) -> None:
            for operation in (Set("/a", b""), Delete("/a"), Check("/a"), Create("/a/b")):
                with pytest.raises(NoNodeError):
                    await store.multi([operation])
            with pytest.raises(NoNodeError):
                await store.get("/a")
            with pytest.raises(NoNodeError):
                await store.children("/a")

        self.run(story)

    def test_a_node_is_not_created_twice(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a", b"first")])
            with pytest.raises(NodeExistsError):
                await store.multi([Create("/a", b"second")])
            assert (await store.get("/a")).data == b"first"

        self.run(story)

    def test_an_operation_with_another_expected_version_is_refused(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a"), Set("/a", b"1")])
            for operation in (Set("/a", b"x", version=0), Delete("/a", version=0), Check("/a", version=0)):
                with pytest.raises(BadVersionError):
                    await store.multi([operation])
            await store.multi([Check("/a", version=1), Check("/a"), Set("/a", b"2", version=1)])
            await store.multi([Delete("/a", version=2)])
            with pytest.raises(NoNodeError):
                await store.get("/a")

        self.run(story)

    def test_a_node_with_children_is_not_deleted(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a"), Create("/a/b")])
            with pytest.raises(NotEmptyError):
                await store.multi([Delete("/a")])
            await store.multi([Delete("/a/b"), Delete("/a")])
            assert "a" not in await store.children("/")

        self.run(story)

    def test_children_come_sorted_and_without_grandchildren(self) -> None:
        async def story(store: Store) -> None:
            names = ("b", "a", "10", "9", "a.b")
            await store.multi([Create("/t"), *(Create(f"/t/{name}") for name in names), Create("/t/a/deep")])
            assert await store.children("/t") == ["10", "9", "a", "a.b", "b"]
            assert await store.children("/t/a") == ["deep"]
            assert await store.children("/t/b") == []

        self.run(story)

    def test_a_refused_multi_changes_nothing(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a", b"old"), Create("/gone"), Create("/e", ephemeral=True)])
            with pytest.raises(BadVersionError):
                await store.multi(
                    [
                        Set("/a", b"new"),
                        Set("/a", b"newer"),
                        Create("/b"),
                        Create("/b/c"),
                        Delete("/gone"),
                        Delete("/e"),
                        Create("/e", b"lasting"),
                        Check("/a", version=7),
                    ]
                )
            assert await store.get("/a") == StoreNode(b"old", 0)
            assert {"a", "e", "gone"} <= set(await store.children("/"))
            assert "b" not in await store.children("/")
            with pytest.raises(StoreError):
                await store.multi([Create("/e/below")])  # it is still the ephemeral one

        self.run(story)

    def test_an_operation_sees_those_before_it(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a"), Create("/a/b"), Set("/a/b", b"1"), Check("/a/b", version=1)])
            assert await store.get("/a/b") == StoreNode(b"1", 1)

        self.run(story)

    def test_an_empty_multi_changes_nothing(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([])

        self.run(story)

    def test_of_many_writers_that_expect_the_same_version_one_wins(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/counter", b"0")])

            async def claim(number: int) -> bool:
                try:
                    await store.multi([Set("/counter", b"%d" % number, version=0)])
                except BadVersionError:
                    return False
                return True

            won = await asyncio.gather(*(claim(number) for number in range(20)))
            assert sum(won) == 1
            assert await store.get("/counter") == StoreNode(b"%d" % won.index(True), 1)

        self.run(story)

    def test_concurrent_changes_all_arrive(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/n")])
            await asyncio.gather(*(store.multi([Create(f"/n/{number:03d}")]) for number in range(200)))
            assert await store.children("/n") == [f"{number:03d}" for number in range(200)]

        self.run(story)

    def test_an_ephemeral_node_has_no_children(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/e", b"x", ephemeral=True)])
            await store.multi([Set("/e", b"y")])
            assert await store.get("/e") == StoreNode(b"y", 1)
            with pytest.raises(StoreError):
                await store.multi([Create("/e/child")])

        self.run(story)

    def test_a_watch_on_a_node_rings_once_when_it_changes(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a")])
            bell = Bell()
            await store.get("/a", watch=bell)
            await store.multi([Set("/a", b"1")])
            await bell.wait()
            await store.multi([Set("/a", b"2")])
            await settle(store)
            assert bell.rings == 1

        self.run(story)

    def test_a_watch_on_a_node_rings_when_it_is_deleted(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a")])
            data, children = Bell(), Bell()
            await store.get("/a", watch=data)
            await store.children("/a", watch=children)
            await store.multi([Delete("/a")])
            await data.wait()
            await children.wait()

        self.run(story)

    def test_a_watch_on_children_rings_when_one_comes_or_goes(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/t")])
            for operation in (Create("/t/a"), Delete("/t/a")):
                bell = Bell()
                await store.children("/t", watch=bell)
                await store.multi([operation])
                await bell.wait()
                assert bell.rings == 1

        self.run(story)

    def test_a_watch_does_not_fire_for_other_nodes(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/t"), Create("/t/a"), Create("/u")])
            node, children = Bell(), Bell()
            await store.get("/t", watch=node)
            await store.children("/t", watch=children)
            await store.multi([Set("/t/a", b"x"), Create("/t/a/deep"), Set("/u", b"x"), Check("/t")])
            with pytest.raises(BadVersionError):
                await store.multi([Set("/t", b"x"), Create("/t/b"), Check("/u", version=9)])
            await settle(store)
            assert (node.rings, children.rings) == (0, 0)
            await store.multi([Create("/t/b")])
            await children.wait()
            assert node.rings == 0

        self.run(story)

    def test_a_change_that_a_watch_announces_can_be_read(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a", b"old")])
            bell = Bell()
            await store.get("/a", watch=bell)
            writing = asyncio.ensure_future(store.multi([Set("/a", b"new")]))
            await bell.wait()
            assert (await store.get("/a")).data == b"new"
            await writing

        self.run(story)

    def test_a_refused_read_leaves_no_watch(self) -> None:
        async def story(store: Store) -> None:
            bell = Bell()
            with pytest.raises(NoNodeError):
                await store.get("/a", watch=bell)
            await store.multi([Create("/a")])
            await store.multi([Set("/a", b"1")])
            await settle(store)
            assert bell.rings == 0

        self.run(story)

    def test_the_session_says_that_it_is_connected(self) -> None:
        async def story(store: Store) -> None:
            heard: asyncio.Queue[SessionState] = asyncio.Queue()
            store.on_session(heard.put_nowait)
            assert await asyncio.wait_for(heard.get(), timeout=PATIENCE_S) is SessionState.CONNECTED

        self.run(story)


class SharedStoreContract(StoreContract):
    def run_shared(self, story: SharedStory) -> None:
        """Run the story with a fresh, empty tree."""
        raise AssertionError("the test class brings its own ensemble")

    def run(self, story: Story) -> None:
        async def alone(ensemble: Ensemble) -> None:
            await story(await ensemble.open())

        self.run_shared(alone)

    def test_a_change_of_one_session_fires_the_watch_of_another_and_can_be_read(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            writer, reader = await ensemble.open(), await ensemble.open()
            await writer.multi([Create("/a", b"old"), Create("/t")])
            await until_children(reader, "/t", [])
            node, children = Bell(), Bell()
            await reader.get("/a", watch=node)
            await reader.children("/t", watch=children)
            await writer.multi([Set("/a", b"new"), Create("/t/x")])
            await node.wait()
            await children.wait()
            assert await reader.get("/a") == StoreNode(b"new", 1)
            assert await reader.children("/t") == ["x"]
            await writer.multi([Set("/a", b"newer"), Delete("/t/x")])
            await settle(reader)
            assert (node.rings, children.rings) == (1, 1)

        self.run_shared(story)

    def test_ephemeral_nodes_are_gone_when_their_session_is_closed(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            broker, watcher = await ensemble.open(), await ensemble.open()
            await watcher.multi([Create("/brokers")])
            await broker.multi([Create("/brokers/1", ephemeral=True), Create("/lasting")])
            await until_children(watcher, "/brokers", ["1"])
            await broker.close()
            await until_children(watcher, "/brokers", [])
            assert await watcher.get("/lasting") == StoreNode(b"", 0)

        self.run_shared(story)

    def test_ephemeral_nodes_are_gone_when_their_session_expires(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            broker, watcher = await ensemble.open(), await ensemble.open()
            await watcher.multi([Create("/brokers")])
            await broker.multi([Create("/brokers/1", ephemeral=True)])
            await until_children(watcher, "/brokers", ["1"])
            await ensemble.expire(broker)
            await until_children(watcher, "/brokers", [])
            await watcher.multi([Create("/brokers/1", b"another", ephemeral=True)])

        self.run_shared(story)

    def test_an_ephemeral_node_belongs_to_the_session_that_made_it_last(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            first, second = await ensemble.open(), await ensemble.open()
            await first.multi([Create("/e", b"first", ephemeral=True)])
            await second.multi([Delete("/e"), Create("/e", b"second", ephemeral=True)])
            await first.close()
            assert (await second.get("/e")).data == b"second"

        self.run_shared(story)

    def test_a_node_that_was_ephemeral_and_is_made_to_last_outlives_the_session(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            first, second = await ensemble.open(), await ensemble.open()
            await first.multi([Create("/e", ephemeral=True), Create("/f", ephemeral=True)])
            await second.multi([Delete("/e"), Create("/e", b"lasting")])
            await first.close()
            assert await second.get("/e") == StoreNode(b"lasting", 0)
            with pytest.raises(NoNodeError):
                await second.get("/f")

        self.run_shared(story)

    def test_an_expired_session_is_over_for_good(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            store = await ensemble.open()
            await store.multi([Create("/a", b"1")])
            heard, bell = Heard(store), Bell()
            await store.get("/a", watch=bell)
            await ensemble.expire(store)
            await heard.until(SessionState.EXPIRED)
            for call in (store.get("/a"), store.children("/"), store.multi([Set("/a", b"2")])):
                with pytest.raises(SessionExpiredError):
                    await call
            late: asyncio.Queue[SessionState] = asyncio.Queue()
            store.on_session(late.put_nowait)
            assert await asyncio.wait_for(late.get(), PATIENCE_S) is SessionState.EXPIRED
            await bell.wait()
            await store.close()
            assert await (await ensemble.open()).get("/a") == StoreNode(b"1", 0)

        self.run_shared(story)

    def test_a_closed_store_refuses_everything(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            store = await ensemble.open()
            await store.close()
            await store.close()
            for call in (store.get("/"), store.children("/"), store.multi([Create("/a")])):
                with pytest.raises(SessionExpiredError):
                    await call

        self.run_shared(story)

    def test_a_check_in_a_multi_fences_a_writer_that_was_deposed(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            old, new = await ensemble.open(), await ensemble.open()
            await old.multi(
                [Create("/epoch"), Create("/controller", b"old", ephemeral=True), Create("/topic")]
            )
            await old.multi([Check("/epoch", version=0), Set("/topic", b"by the old")])
            await new.multi(
                [Delete("/controller"), Create("/controller", b"new", ephemeral=True), Set("/epoch", b"")]
            )
            with pytest.raises(BadVersionError):
                await old.multi([Check("/epoch", version=0), Set("/topic", b"too late")])
            await new.multi([Check("/epoch", version=1), Set("/topic", b"by the new", version=1)])
            assert (await new.get("/topic")).data == b"by the new"

        self.run_shared(story)

    def test_of_two_sessions_that_create_one_node_one_is_refused(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            stores = [await ensemble.open() for _ in range(3)]
            outcomes = await asyncio.gather(
                *(store.multi([Create("/controller", ephemeral=True)]) for store in stores),
                return_exceptions=True,
            )
            assert sorted(map(repr, map(type, outcomes))) == sorted(
                map(repr, [NodeExistsError, NodeExistsError, type(None)])
            )

        self.run_shared(story)

    def test_a_broken_link_suspends_the_session_and_a_mended_one_resumes_it(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            store, other = await ensemble.open(), await ensemble.open()
            await store.multi([Create("/e", ephemeral=True)])
            heard = Heard(store)
            ensemble.cut(store)
            await heard.until(SessionState.SUSPENDED)
            for call in (store.get("/e"), store.children("/"), store.multi([Create("/a")])):
                with pytest.raises(ConnectionLossError):
                    await call
            ensemble.mend(store)
            await heard.until(SessionState.CONNECTED)
            await store.multi([Set("/e", b"mine still")])
            await until_data(other, "/e", b"mine still")

        self.run_shared(story)

    def test_a_change_in_flight_when_the_link_breaks_has_an_unknown_outcome(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            store = await ensemble.open()
            await store.multi([Create("/a", b"before")])
            heard = Heard(store)
            changes = [
                asyncio.ensure_future(store.multi([Set("/a", b"%d" % number)])) for number in range(20)
            ]
            await asyncio.sleep(0)
            ensemble.cut(store)
            outcomes = await asyncio.gather(*changes, return_exceptions=True)
            await heard.until(SessionState.SUSPENDED)
            ensemble.mend(store)
            await heard.until(SessionState.CONNECTED)
            made = (await store.get("/a")).version
            answered = outcomes.count(None)
            assert answered <= made <= len(changes)
            assert {type(outcome) for outcome in outcomes[answered:]} == {ConnectionLossError}

        self.run_shared(story)

    def test_a_watch_fires_when_the_link_breaks_since_it_may_have_missed_a_change(self) -> None:
        async def story(ensemble: Ensemble) -> None:
            store, other = await ensemble.open(), await ensemble.open()
            await store.multi([Create("/a", b"before")])
            heard, node, children = Heard(store), Bell(), Bell()
            await store.get("/a", watch=node)
            await store.children("/", watch=children)
            ensemble.cut(store)
            await other.multi([Set("/a", b"unseen")])
            await node.wait()
            await children.wait()
            ensemble.mend(store)
            await heard.until(SessionState.SUSPENDED)
            await heard.until(SessionState.CONNECTED)
            await until_data(store, "/a", b"unseen")
            await other.multi([Set("/a", b"seen"), Create("/b")])
            await until_data(store, "/a", b"seen")
            assert (node.rings, children.rings) == (1, 1)

        self.run_shared(story)
