"""The simulated disk: the contract of every disk, what a crash keeps, and the faults one can ask for."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from penstock.sim.disk import SimDisk
from penstock.sim.disk_faults import Revoked
from penstock.sim.disk_operations import DiskOperation
from penstock.sim.mounted_disk import MountedDisk
from penstock.world.disk import Disk, File, read_file, write_file_atomically
from tests.raw_client import batch_of
from tests.world.disk_contract import DiskContract, filled

SEEDS = range(300)


class TestSimDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> Disk:
        return SimDisk(Random(0)).mount()


def left_by_power_cuts(
    prepare: Callable[[MountedDisk], object], *, page_bytes: int = 4096
) -> list[MountedDisk]:
    """What many machine crashes after the same preparation left."""
    left = []
    for seed in SEEDS:
        disk = SimDisk(Random(seed), page_bytes=page_bytes)
        prepare(disk.mount())
        disk.crash_machine()
        left.append(disk.mount())
    return left


def synced(disk: MountedDisk, path: str, content: bytes) -> File:
    file = filled(disk, path, content)
    file.sync()
    disk.sync_dir(path.rpartition("/")[0])
    return file


# ---- what a process crash keeps


def test_a_process_crash_keeps_everything_that_was_written() -> None:
    disk = SimDisk(Random(1))
    mounted = disk.mount()
    mounted.make_dir("d")
    filled(mounted, "d/a", b"12").truncate(1)
    filled(mounted, "d/b", b"3")
    mounted.rename("d/b", "d/c")
    disk.crash_process()
    again = disk.mount()
    assert again.list("d") == ["a", "c"]
    assert read_file(again, "d/a") == b"1"
    assert read_file(again, "d/c") == b"3"


def test_a_dead_node_changes_nothing_any_more() -> None:
    disk = SimDisk(Random(1))
    dead = disk.mount()
    dead.make_dir("d")
    file = synced(dead, "a", b"1")
    disk.crash_process()
    uses: list[Callable[[], object]] = [
        lambda: file.append([b"2"]),
        lambda: file.read(0, 1),
        lambda: file.read_cached(0, 1),
        lambda: file.truncate(0),
        file.sync,
        lambda: dead.open("b", create=True),
        lambda: dead.exists("a"),
        lambda: dead.size("a"),
        dead.list,
        lambda: dead.make_dir("e"),
        lambda: dead.rename("a", "b"),
        lambda: dead.remove("a"),
        lambda: dead.remove_tree("d"),
        lambda: dead.sync_dir(""),
        dead.sync_all,
        dead.usage,
        lambda: dead.lock(".lock"),
    ]
    for use in uses:
        with pytest.raises(Revoked):
            use()
    assert disk.mount().list() == ["a", "d"]
    assert disk.content("a") == b"1"


def test_a_lock_ends_with_the_process_that_held_it() -> None:
    disk = SimDisk(Random(1))
    stale = disk.mount().lock(".lock")
    disk.crash_process()
    mounted = disk.mount()
    mounted.lock(".lock")
    stale.release()
    with pytest.raises(BlockingIOError):
        mounted.lock(".lock")


# ---- what a machine crash keeps


def test_a_machine_crash_keeps_what_was_synced() -> None:
    def prepare(disk: MountedDisk) -> None:
        disk.make_dir("d")
        disk.sync_dir("")
        synced(disk, "d/a", b"x" * 10_000)

    for disk in left_by_power_cuts(prepare):
        assert read_file(disk, "d/a") == b"x" * 10_000


def test_what_was_appended_since_is_kept_in_part_torn_or_full_of_holes() -> None:
    def prepare(disk: MountedDisk) -> None:
        file = synced(disk, "a", b"s" * 5000)
        for letter in (b"b", b"c", b"d"):
            file.append([letter * 5000])

    whole = b"s" * 5000 + b"b" * 5000 + b"c" * 5000 + b"d" * 5000
    found = [read_file(disk, "a") for disk in left_by_power_cuts(prepare)]
    assert all(content.startswith(b"s" * 5000) for content in found)
    for content in found:
        for start in range(0, len(content), 4096):
            page = content[max(start, 5000) : start + 4096]
            original = whole[max(start, 5000) : start + 4096][: len(page)]
            assert page in (original, bytes(len(page)))
    assert b"s" * 5000 in found, "nothing of it"
    assert whole in found, "all of it"
    assert any(len(content) % 5000 and content == whole[: len(content)] for content in found), "torn"
    assert any(b"\0" in content and content.rstrip(b"\0") != content[:5000] for content in found), "a hole"


def test_a_cut_that_was_not_synced_may_come_undone_and_take_what_followed_with_it() -> None:
    def prepare(disk: MountedDisk) -> None:
        file = synced(disk, "a", b"abcdef")
        file.truncate(4)
        file.truncate(2)
        file.append([b"X"])

    found = {read_file(disk, "a") for disk in left_by_power_cuts(prepare)}
    assert found == {b"abcdef", b"abcd", b"ab", b"abX", b"ab\0"}


def test_a_cut_that_was_synced_stays_cut() -> None:
    def prepare(disk: MountedDisk) -> None:
        file = synced(disk, "a", b"abcdef")
        file.truncate(2)
        file.append([b"X"])
        file.sync()

    assert {read_file(disk, "a") for disk in left_by_power_cuts(prepare)} == {b"abX"}


def test_a_new_name_is_certain_only_after_its_directory_was_synced() -> None:
    def prepare(disk: MountedDisk) -> None:
        filled(disk, "a", b"1").sync()

    found = left_by_power_cuts(prepare)
    assert {tuple(disk.list()) for disk in found} == {(), ("a",)}
    assert {read_file(disk, "a") for disk in found if disk.exists("a")} == {b"1"}


def test_a_rename_and_a_removal_may_come_undone() -> None:
    def prepare(disk: MountedDisk) -> None:
        for name in ("a", "b", "target"):
            synced(disk, name, name.encode())
        disk.rename("a", "target")
        disk.remove("b")

    found = left_by_power_cuts(prepare)
    assert {tuple(disk.list()) for disk in found} == {
        ("a", "b", "target"),
        ("b", "target"),
        ("a", "target"),
        ("target",),
    }
    assert {read_file(disk, "target") for disk in found if disk.exists("a")} == {b"target"}
    assert {read_file(disk, "target") for disk in found if not disk.exists("a")} == {b"a"}


def test_a_removed_tree_may_come_back_in_parts() -> None:
    def prepare(disk: MountedDisk) -> None:
        disk.make_dir("d")
        disk.sync_dir("")
        synced(disk, "d/a", b"1")
        synced(disk, "d/b", b"2")
        disk.remove_tree("d")

    found = {tuple(disk.list("d")) if disk.exists("d") else None for disk in left_by_power_cuts(prepare)}
    assert found == {None, (), ("a",), ("b",), ("a", "b")}


def test_a_small_file_replaced_atomically_is_the_old_one_or_the_new() -> None:
    def prepare(disk: MountedDisk) -> None:
        write_file_atomically(disk, "a", b"old")
        try:
            disk.faults.strike_after(4, lambda: None)  # just before the directory is synced
            write_file_atomically(disk, "a", b"new")
        except Revoked:
            return
        raise AssertionError("the strike did not come")

    assert {read_file(disk, "a") for disk in left_by_power_cuts(prepare)} == {b"old", b"new"}


def test_sync_all_makes_everything_certain() -> None:
    def prepare(disk: MountedDisk) -> None:
        disk.make_dir("d/e")
        filled(disk, "d/e/a", b"1")
        assert disk.sync_all()

    assert {read_file(disk, "d/e/a") for disk in left_by_power_cuts(prepare)} == {b"1"}
    cannot = SimDisk(Random(0), can_sync_all=False).mount()
    assert not cannot.sync_all()


def test_after_a_machine_crash_the_page_cache_is_empty_until_a_read() -> None:
    disk = SimDisk(Random(1))
    file = synced(disk.mount(), "a", b"123")
    assert file.read_cached(0, 3) == b"123"
    disk.crash_machine()
    file = disk.mount().open("a")
    assert file.read_cached(0, 3) is None
    file.append([b"4"])
    assert file.read_cached(3, 1) == b"4"
    assert file.read(0, 3) == b"123"
    assert file.read_cached(0, 3) == b"123"


def test_the_same_seed_leaves_the_same() -> None:
    def once() -> list[tuple[str, bytes]]:
        disk = SimDisk(Random(7), page_bytes=64)
        mounted = disk.mount()
        for number in range(20):
            filled(mounted, f"file{number}", bytes([number + 1]) * 1000)
        disk.crash_machine()
        return [(name, disk.content(name)) for name in disk.mount().list()]

    assert once() == once()


# ---- faults


def test_an_append_that_is_refused_leaves_the_file_as_it_was() -> None:
    disk = SimDisk(Random(1))
    file = filled(disk.mount(), "a", b"1")
    for number in (errno.EIO, errno.ENOSPC):
        disk.faults.fail_appends(number)
        with pytest.raises(OSError) as refusal:
            file.append([b"2"])
        assert refusal.value.errno == number
    file.append([b"3"])
    assert file.read(0, 9) == b"13"


def test_a_full_disk_takes_nothing_until_there_is_room_again() -> None:
    disk = SimDisk(Random(1))
    mounted = disk.mount()
    file = filled(mounted, "a", b"1")
    disk.faults.full = True
    for _ in range(3):
        with pytest.raises(OSError) as refusal:
            file.append([b"2"])
        assert refusal.value.errno == errno.ENOSPC
    assert mounted.usage().usable == 0
    disk.faults.full = False
    file.append([b"3"])
    assert file.read(0, 9) == b"13"


def test_a_small_disk_is_full_when_it_is_full() -> None:
    mounted = SimDisk(Random(1), size_max=10).mount()
    file = filled(mounted, "a", b"12345678")
    with pytest.raises(OSError) as refusal:
        file.append([b"9", b"10"])
    assert refusal.value.errno == errno.ENOSPC
    assert mounted.usage() == (10, 2)


def test_a_failed_sync_is_final_for_its_file_and_puts_nothing_on_the_device() -> None:
    disk = SimDisk(Random(1))
    mounted = disk.mount()
    file = synced(mounted, "a", b"1")
    other = filled(mounted, "b", b"1")
    file.append([b"2"])
    disk.faults.fail_syncs()
    for _ in range(2):
        with pytest.raises(OSError) as failure:
            file.sync()
        assert failure.value.errno == errno.EIO
    other.sync()
    with pytest.raises(OSError):
        mounted.sync_all()
    disk.crash_process()
    disk.mount().open("a").sync()


def test_a_failed_sync_of_names_is_final_too() -> None:
    disk = SimDisk(Random(1))
    mounted = disk.mount()
    mounted.make_dir("d")
    disk.faults.fail_syncs()
    for _ in range(2):
        with pytest.raises(OSError):
            mounted.sync_dir("d")
    mounted.sync_dir("")


def test_a_slow_sync_tells_how_long_it_would_have_taken() -> None:
    disk = SimDisk(Random(1))
    mounted = disk.mount()
    file = filled(mounted, "a", b"1")
    file.sync()
    assert mounted.take_delay_s() == 0
    disk.faults.sync_delay_s = 0.25
    file.sync()
    mounted.sync_dir("")
    assert mounted.take_delay_s() == 0.5
    assert mounted.take_delay_s() == 0


def test_a_flipped_bit_is_read_and_survives_every_crash() -> None:
    disk = SimDisk(Random(1))
    mounted = disk.mount()
    synced(mounted, "a.log", bytes(100))
    filled(mounted, "unsynced.log", bytes(100))
    assert disk.flip_bit(suffix=".index") is None
    mounted.make_dir("spared")
    synced(mounted, "spared/b.log", bytes(100))
    assert disk.flip_bit(suffix="b.log", spare="spared") is None
    assert disk.flip_bit(suffix=".log", spare="spared") == "a.log"
    flipped = disk.content("a.log")
    assert sum(byte.bit_count() for byte in flipped) == 1
    disk.crash_machine()
    assert disk.content("a.log") == flipped


def test_no_bit_flips_in_the_base_offset_and_leader_epoch_that_no_crc_covers() -> None:
    batch = batch_of(b"x")
    seen = set()
    for seed in range(1_000):
        disk = SimDisk(Random(seed))
        synced(disk.mount(), "a.log", batch * 2)
        disk.flip_bit()
        flipped = disk.content("a.log")
        seen |= {position for position in range(len(flipped)) if flipped[position] != (batch * 2)[position]}
    bare = {*range(8), *range(12, 16)}
    assert seen == set(range(2 * len(batch))) - bare - {len(batch) + position for position in bare}


def test_a_strike_comes_in_the_middle_of_an_append_and_tears_it() -> None:
    left = set()
    for seed in SEEDS:
        disk = SimDisk(Random(seed))
        file = filled(disk.mount(), "a", b"1")
        disk.faults.strike_after(1, disk.crash_process)
        file.append([b"2"])
        with pytest.raises(Revoked):
            file.append([b"3", b"4"])
        with pytest.raises(Revoked):
            file.append([b"5"])
        left.add(disk.content("a"))
    assert left == {b"12", b"123", b"1234"}


def test_a_strike_comes_before_a_change_of_names_or_a_sync() -> None:
    changes: list[Callable[[MountedDisk], object]] = [
        lambda disk: disk.open("new", create=True),
        lambda disk: disk.open("a").truncate(0),
        lambda disk: disk.open("a").sync(),
        lambda disk: disk.make_dir("e"),
        lambda disk: disk.rename("a", "b"),
        lambda disk: disk.remove("a"),
        lambda disk: disk.remove_tree("d"),
        lambda disk: disk.sync_dir(""),
        lambda disk: disk.sync_all(),
    ]
    for change in changes:
        disk = SimDisk(Random(1))
        mounted = disk.mount()
        mounted.make_dir("d")
        synced(mounted, "a", b"1")
        disk.faults.strike_after(0, disk.crash_machine)
        with pytest.raises(Revoked):
            change(mounted)
        assert disk.mount().list() == ["a", "d"]
        assert disk.content("a") == b"1"


def test_reading_does_not_count_towards_a_strike_and_a_crash_calls_it_off() -> None:
    disk = SimDisk(Random(1))
    mounted = disk.mount()
    file = synced(mounted, "a", b"1")
    disk.faults.strike_after(0, disk.crash_process)
    file.read(0, 1)
    mounted.list()
    assert disk.faults.strike_is_pending
    disk.crash_machine()
    disk.mount().open("a").append([b"2"])
    assert disk.content("a") == b"12"


def test_a_strike_can_be_set_for_a_node_that_is_yet_to_start() -> None:
    disk = SimDisk(Random(1))
    disk.faults.strike_after(0, disk.crash_process)
    mounted = disk.mount()
    with pytest.raises(Revoked):
        mounted.make_dir("d")


def test_a_watcher_hears_of_every_operation_before_it_happens() -> None:
    heard: list[tuple[DiskOperation, str, int]] = []
    disk = SimDisk(Random(1), watcher=lambda *operation: heard.append(operation))
    mounted = disk.mount()
    mounted.make_dir("d")
    file = filled(mounted, "d/a", b"12")
    file.sync()
    file.read(0, 2)
    mounted.rename("d/a", "d/b")
    mounted.sync_dir("d")
    mounted.remove("d/b")
    assert heard == [
        (DiskOperation.MAKE_DIR, "d", 0),
        (DiskOperation.OPEN, "d/a", 0),
        (DiskOperation.CREATE, "d/a", 0),
        (DiskOperation.APPEND, "d/a", 2),
        (DiskOperation.SYNC, "d/a", 0),
        (DiskOperation.READ, "d/a", 2),
        (DiskOperation.RENAME, "d/b", 0),
        (DiskOperation.SYNC_DIR, "d", 0),
        (DiskOperation.REMOVE, "d/b", 0),
    ]
