"""The embedded store: the contract, and failures of its log on disk."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import StorageError
from penstock.cluster.embedded_store import EmbeddedStore
from penstock.world.disk import Disk, read_file
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_disk import RealDisk
from penstock.world.real_loop import RealLoop, run
from penstock.world.real_work import RealWork
from penstock.world.store import Create, Delete, NoNodeError, SessionState, Set, StoreError
from penstock.world.work import Work
from tests.cluster.store_contract import Bell, StoreContract, Story

T = TypeVar("T")


class TestEmbeddedStoreInMemory(StoreContract):
    def run(self, story: Story) -> None:
        with_store(MemoryDisk(), story)


class TestEmbeddedStoreOnDisk(StoreContract):
    @pytest.fixture(autouse=True)
    def _keep_path(self, tmp_path: Path) -> None:
        self._path = tmp_path

    def run(self, story: Story) -> None:
        with_store(RealDisk(str(self._path)), story)


class TestEmbeddedStoreThatSnapshotsAllTheTime(StoreContract):
    def run(self, story: Story) -> None:
        with_store(MemoryDisk(), story, snapshot_after_bytes=1)


def with_store(disk: Disk, story: Callable[[EmbeddedStore], Awaitable[T]], **options: Any) -> T:
    """Open the store on `disk`, tell the story, close it. Several times on one disk: several sessions."""

    async def main() -> T:
        work = RealWork(threads=2)
        store = EmbeddedStore.open(disk, "store", loop=RealLoop(), work=work, **options)
        try:
            return await story(store)
        finally:
            await store.close()
            work.close()

    return run(main)


def recovered(disk: Disk) -> Any:
    async def look(store: EmbeddedStore) -> Any:
        return store.recovery

    return with_store(disk, look)


def writing(*operations: Any) -> Callable[[EmbeddedStore], Awaitable[None]]:
    async def story(store: EmbeddedStore) -> None:
        for operation in operations:
            await store.multi([operation])

    return story


async def content(store: EmbeddedStore, path: str = "/") -> dict[str, tuple[bytes, int]]:
    """The whole tree below a path."""
    found = {path: tuple(await store.get(path))}
    for name in await store.children(path):
        found |= await content(store, path.rstrip("/") + "/" + name)
    return found


def replace(disk: Disk, path: str, new: bytes) -> None:
    disk.remove(path)
    file = disk.open(path, create=True)
    file.append([new])
    file.close()


LOG = "store/0000000001.log"


def test_changes_survive_closing_and_opening_the_store() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/a", b"1"), Set("/a", b"2"), Create("/a/b"), Create("/c"), Delete("/c")))
    assert with_store(disk, content) == {"/": (b"", 0), "/a": (b"2", 1), "/a/b": (b"", 0)}
    assert recovered(disk).entries == 5


def test_ephemeral_nodes_last_as_long_as_the_session() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/brokers"), Create("/brokers/1", b"first", ephemeral=True)))
    assert with_store(disk, content) == {"/": (b"", 0), "/brokers": (b"", 0)}
    with_store(disk, writing(Create("/brokers/1", b"second", ephemeral=True)))
    with_store(disk, writing(Create("/brokers/1", b"third"), Create("/brokers/1/lasting")))
    assert with_store(disk, content)["/brokers/1"] == (b"third", 0)


def test_ephemeral_nodes_do_not_outlive_the_session_in_a_snapshot() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/e", ephemeral=True), Create("/p")), snapshot_after_bytes=1)
    assert any(name.endswith(".snapshot") for name in disk.list("store"))
    assert with_store(disk, content) == {"/": (b"", 0), "/p": (b"", 0)}


def test_a_torn_end_is_cut_wherever_it_tore() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/a"), Create("/b", b"x" * 50)))
    whole = read_file(disk, LOG)
    with_store(disk, writing(Create("/c", b"y" * 50)))
    longer = read_file(disk, LOG)
    for end in range(len(whole) + 1, len(longer)):
        replace(disk, LOG, longer[:end])
        assert set(with_store(disk, content)) == {"/", "/a", "/b"}
        replace(disk, LOG, longer[:end])
        assert recovered(disk).cut_bytes == end - len(whole)
        assert disk.size(LOG) == len(whole)


def test_an_end_that_came_back_as_zeros_is_cut() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/a")))
    replace(disk, LOG, read_file(disk, LOG) + bytes(4096))
    assert recovered(disk).cut_bytes == 4096
    with_store(disk, writing(Create("/b")))
    assert set(with_store(disk, content)) == {"/", "/a", "/b"}


def test_damage_in_the_middle_is_refused_and_named() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/a", b"x" * 20), Create("/b", b"y" * 20), Create("/c", b"z" * 20)))
    good = read_file(disk, LOG)
    last = good.rindex(b"PSme")
    for position in range(last):
        damaged = bytearray(good)
        damaged[position] ^= 0x40
        replace(disk, LOG, bytes(damaged))
        with pytest.raises(StorageError, match=r"0000000001\.log.*damaged at byte \d+"):
            with_store(disk, content)


def test_a_long_log_gives_way_to_a_snapshot() -> None:
    disk = MemoryDisk()

    async def story(store: EmbeddedStore) -> None:
        await store.multi([Create("/a")])
        for number in range(300):
            await store.multi([Set("/a", b"%0100d" % number)])

    with_store(disk, story, snapshot_after_bytes=2000)
    names = disk.list("store")
    assert len(names) == 2
    assert sum(disk.size(f"store/{name}") for name in names) < 5000
    assert with_store(disk, content)["/a"] == (b"%0100d" % 299, 300)


def test_the_log_may_grow_as_long_as_the_snapshot_it_would_be_replaced_by() -> None:
    disk = MemoryDisk()

    async def story(store: EmbeddedStore) -> None:
        await store.multi([Create("/large", bytes(100_000))])
        for number in range(50):
            await store.multi([Create(f"/{number}", bytes(100))])

    with_store(disk, story, snapshot_after_bytes=1000)
    assert "0000000002.log" in disk.list("store")
    assert "0000000003.log" not in disk.list("store")


def test_a_snapshot_that_was_not_finished_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    disk = FailingDisk()
    disk.failing = "rename"
    with_store(disk, writing(Create("/a", b"1"), Create("/e", ephemeral=True)), snapshot_after_bytes=1)
    assert "could not write a snapshot" in caplog.text
    assert disk.list("store")[:3] == ["0000000001.log", "0000000002.log", "0000000002.snapshot.tmp"]
    with_store(disk, writing(Set("/a", b"2"), Create("/b")))
    assert with_store(disk, content) == {"/": (b"", 0), "/a": (b"2", 1), "/b": (b"", 0)}
    assert not any(name.endswith(".tmp") for name in disk.list("store"))
    disk.failing = ""
    with_store(disk, writing(Create("/c")), snapshot_after_bytes=1)
    assert [name.partition(".")[2] for name in disk.list("store")] == ["log", "snapshot"]
    assert set(with_store(disk, content)) == {"/", "/a", "/b", "/c"}


def test_a_missing_log_is_noticed() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/a")), snapshot_after_bytes=1)
    disk.remove("store/0000000002.log")
    with pytest.raises(StorageError, match="lacks a log"):
        with_store(disk, content)
    disk.remove("store/0000000002.snapshot")
    replace(disk, "store/0000000002.log", b"")
    with pytest.raises(StorageError, match="lacks a log"):
        with_store(disk, content)


def test_a_torn_log_that_another_follows_is_damage() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/a"), Create("/b")))
    replace(disk, "store/0000000002.log", b"")
    assert set(with_store(disk, content)) == {"/", "/a", "/b"}
    disk.remove("store/0000000002.log")
    replace(disk, LOG, read_file(disk, LOG)[:-1])
    replace(disk, "store/0000000002.log", b"")
    with pytest.raises(StorageError, match="damaged"):
        with_store(disk, content)


def test_a_damaged_snapshot_is_refused_and_named() -> None:
    disk = MemoryDisk()
    with_store(disk, writing(Create("/a")), snapshot_after_bytes=1)
    (name,) = (name for name in disk.list("store") if name.endswith(".snapshot"))
    good = read_file(disk, f"store/{name}")
    for bad in (b"", good[:-1], good + b"x", good.replace(b"/a", b"/b")):
        replace(disk, f"store/{name}", bad)
        with pytest.raises(StorageError, match=name):
            with_store(disk, content)


class CountingWork:
    """The real work, and how often it was called upon."""

    def __init__(self) -> None:
        self._work = RealWork(threads=1)
        self.runs = 0

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        self.runs += 1
        return self._work.run(function)

    def close(self) -> None:
        self._work.close()


class FailingDisk(MemoryDisk):
    """A disk that fails to append, to sync or to rename on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = ""

    def open(self, path: str, *, create: bool = False) -> Any:
        disk, file = self, super().open(path, create=create)

        class FailingFile:
            def __getattr__(self, name: str) -> Any:
                if name == disk.failing:
                    raise OSError(errno.EIO, "Input/output error", path)
                return getattr(file, name)

        return FailingFile()

    def rename(self, source: str, target: str) -> None:
        if self.failing == "rename":
            raise OSError(errno.EIO, "Input/output error", source)
        super().rename(source, target)


def with_work(disk: Disk, work: Callable[[], Work], story: Callable[[EmbeddedStore, Any], Any]) -> None:
    async def main() -> None:
        at_work = work()
        store = EmbeddedStore.open(disk, "store", loop=RealLoop(), work=at_work)
        await story(store, at_work)
        await store.close()
        at_work.close()

    run(main)


def test_concurrent_changes_share_a_sync() -> None:
    async def story(store: EmbeddedStore, work: CountingWork) -> None:
        await asyncio.gather(*(store.multi([Create(f"/{number}")]) for number in range(500)))
        assert work.runs <= 3

    with_work(MemoryDisk(), CountingWork, story)


def test_a_change_is_not_seen_before_it_is_synced() -> None:
    async def story(store: EmbeddedStore, work: RealWork) -> None:
        blocked = asyncio.get_running_loop().create_future()
        real_run = work.run

        def run_later(function: Callable[[], Any]) -> Awaitable[Any]:
            async def wait() -> Any:
                await blocked
                return await real_run(function)

            return wait()

        work.run = run_later  # type: ignore[method-assign,assignment]
        first = asyncio.ensure_future(store.multi([Create("/a")]))
        second = asyncio.ensure_future(store.multi([Set("/a", b"1", version=0)]))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not first.done()
        with pytest.raises(NoNodeError):
            await store.get("/a")
        blocked.set_result(None)
        await asyncio.gather(first, second)
        assert await store.get("/a") == (b"1", 1)

    with_work(MemoryDisk(), lambda: RealWork(threads=1), story)


def test_a_caller_that_gives_up_does_not_undo_its_change() -> None:
    async def story(store: EmbeddedStore) -> None:
        given_up = asyncio.ensure_future(store.multi([Create("/a")]))
        await asyncio.sleep(0)
        given_up.cancel()
        await store.multi([Create("/a/b")])
        assert given_up.cancelled()
        assert await store.children("/a") == ["b"]

    with_store(MemoryDisk(), story)


def test_a_failed_append_is_reported_and_the_store_goes_on() -> None:
    disk = FailingDisk()

    async def story(store: EmbeddedStore) -> None:
        await store.multi([Create("/a")])
        disk.failing = "append"
        outcomes = await asyncio.gather(
            store.multi([Create("/b")]), store.multi([Create("/b/c")]), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [StorageError, StorageError]
        disk.failing = ""
        await store.multi([Create("/b", b"again")])
        assert await store.children("/") == ["a", "b"]

    with_store(disk, story)
    assert set(with_store(disk, content)) == {"/", "/a", "/b"}


def test_a_failed_sync_ends_the_session() -> None:
    disk = FailingDisk()

    async def story(store: EmbeddedStore) -> None:
        heard: list[SessionState] = []
        over = asyncio.Event()
        store.on_session(heard.append)
        store.on_session(lambda state: over.set() if state is SessionState.EXPIRED else None)
        await store.multi([Create("/a")])
        disk.failing = "sync"
        with pytest.raises(StorageError, match="could not be synced"):
            await store.multi([Create("/b")])
        disk.failing = ""
        with pytest.raises(StorageError, match="could not be synced"):
            await store.multi([Create("/c")])
        await over.wait()
        assert heard == [SessionState.CONNECTED, SessionState.EXPIRED]
        assert await store.children("/") == ["a"]

    with_store(disk, story)


def test_a_closed_store_accepts_no_more_but_finishes_what_was_begun() -> None:
    disk = MemoryDisk()

    async def story(store: EmbeddedStore) -> None:
        begun = asyncio.ensure_future(store.multi([Create("/a")]))
        await asyncio.sleep(0)
        await store.close()
        await store.close()
        await begun
        with pytest.raises(StorageError, match="closed"):
            await store.multi([Create("/b")])

    with_store(disk, story)
    assert set(with_store(disk, content)) == {"/", "/a"}


def test_a_store_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a file where the directory should be")
    with pytest.raises(StorageError, match="cannot be opened"):
        with_store(RealDisk(str(tmp_path)), content)


def test_watches_ring_for_changes_that_share_a_sync() -> None:
    async def story(store: EmbeddedStore) -> None:
        bell = Bell()
        await store.children("/", watch=bell)
        await asyncio.gather(store.multi([Create("/a")]), store.multi([Create("/b")]))
        await bell.wait()
        assert bell.rings == 1

    with_store(MemoryDisk(), story)


paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z"])
operations = st.one_of(
    st.builds(Create, paths, st.binary(max_size=5), st.booleans()),
    st.builds(Set, paths, st.binary(max_size=5), st.integers(-1, 2)),
    st.builds(Delete, paths, st.integers(-1, 2)),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.lists(operations, max_size=4), max_size=8), min_size=1, max_size=4), st.booleans()
)
def test_every_session_begins_with_what_the_last_one_left(sessions: list, snapshots: bool) -> None:
    disk = MemoryDisk()
    left = {"/": (b"", 0)}
    for session in sessions:
        assert with_store(disk, content) == left
        story = partial(perform_and_tell_what_lasts, session)
        left = with_store(disk, story, snapshot_after_bytes=1 if snapshots else 1 << 20)
    assert with_store(disk, content) == left


async def perform_and_tell_what_lasts(session: list, store: EmbeddedStore) -> dict[str, tuple[bytes, int]]:
    ephemeral: set[str] = set()
    for multi in session:
        try:
            await store.multi(multi)
        except StoreError:
            continue
        for operation in multi:
            if isinstance(operation, Create) and operation.ephemeral:
                ephemeral.add(operation.path)
            elif isinstance(operation, Create | Delete):
                ephemeral.discard(operation.path)
    return {path: node for path, node in (await content(store)).items() if path not in ephemeral}
