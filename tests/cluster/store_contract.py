"""What every Store promises. A test class inherits `StoreContract` and says how to run a story on its own."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.world.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionState,
    Set,
    Store,
    StoreError,
)

Story = Callable[[Store], Awaitable[None]]


class Bell:
    """A watch that can be waited for."""

    def __init__(self) -> None:
        self.rings = 0
        self._rung = asyncio.Event()

    def __call__(self) -> None:
        self.rings += 1
        self._rung.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self._rung.wait(), timeout=10)


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
            assert await store.get("/a") == Node(b"one", 0)
            await store.multi([Set("/a", b"two")])
            await store.multi([Set("/a", b"three", version=1)])
            assert await store.get("/a") == Node(b"three", 2)

        self.run(story)

    def test_a_recreated_node_counts_from_zero(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a"), Set("/a", b"x"), Delete("/a", version=1), Create("/a", b"y")])
            assert await store.get("/a") == Node(b"y", 0)

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

    def test_whoever_expects_another_version_is_refused(self) -> None:
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

    def test_of_a_refused_multi_nothing_happens(self) -> None:
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
            assert await store.get("/a") == Node(b"old", 0)
            assert {"a", "e", "gone"} <= set(await store.children("/"))
            assert "b" not in await store.children("/")
            with pytest.raises(StoreError):
                await store.multi([Create("/e/below")])  # it is still the ephemeral one

        self.run(story)

    def test_an_operation_sees_those_before_it(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([Create("/a"), Create("/a/b"), Set("/a/b", b"1"), Check("/a/b", version=1)])
            assert await store.get("/a/b") == Node(b"1", 1)

        self.run(story)

    def test_an_empty_multi_changes_nothing(self) -> None:
        async def story(store: Store) -> None:
            await store.multi([])

        self.run(story)

    def test_of_many_who_race_for_a_version_one_wins(self) -> None:
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
            assert await store.get("/counter") == Node(b"%d" % won.index(True), 1)

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
            assert await store.get("/e") == Node(b"y", 1)
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

    def test_a_watch_keeps_quiet_about_what_does_not_concern_it(self) -> None:
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

    def test_what_a_watch_announces_can_be_read(self) -> None:
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
            assert await asyncio.wait_for(heard.get(), timeout=10) is SessionState.CONNECTED

        self.run(story)
