"""The disk of an embedded broker: any other disk while the broker lives, and nothing once it is dead."""

import errno
from collections.abc import Callable

import pytest

from penstock.testing.faults import Faults
from penstock.testing.mortal import Killed, MortalDisk
from penstock.world.disk import Disk, read_file
from penstock.world.memory_disk import MemoryDisk
from tests.world.disk_contract import DiskContract, filled


class TestMortalDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> Disk:
        return MortalDisk(MemoryDisk(), Faults())


def test_the_dead_change_nothing() -> None:
    kept = MemoryDisk()
    disk = MortalDisk(kept, Faults())
    disk.make_dir("d")
    file = filled(disk, "a", b"1")
    disk.die()
    changes: list[Callable[[], object]] = [
        lambda: file.append([b"2"]),
        lambda: file.truncate(0),
        file.sync,
        lambda: disk.open("b", create=True),
        lambda: disk.make_dir("e"),
        lambda: disk.rename("a", "b"),
        lambda: disk.remove("a"),
        lambda: disk.remove_tree("d"),
        lambda: disk.sync_dir(""),
        disk.sync_all,
        lambda: disk.lock(".lock"),
    ]
    for change in changes:
        with pytest.raises(Killed):
            change()
    assert kept.list() == ["a", "d"]
    assert read_file(kept, "a") == b"1"


def test_what_the_dead_held_is_free_for_the_next() -> None:
    kept = MemoryDisk()
    disk = MortalDisk(kept, Faults())
    disk.lock(".lock")
    file = filled(disk, "a", b"1")
    disk.die()
    disk.let_go()
    with pytest.raises(OSError) as closed:
        file.read(0, 1)
    assert closed.value.errno == errno.EBADF
    MortalDisk(kept, Faults()).lock(".lock").release()


def test_a_full_disk_refuses_appends_and_says_that_nothing_is_usable() -> None:
    faults = Faults()
    disk = MortalDisk(MemoryDisk(size_max=100), faults)
    file = filled(disk, "a", b"1")
    faults.disk_full = True
    with pytest.raises(OSError) as refusal:
        file.append([b"2"])
    assert refusal.value.errno == errno.ENOSPC
    assert disk.usage() == (100, 0)
    faults.clear()
    file.append([b"3"])
    assert file.read(0, 9) == b"13"
    assert disk.usage() == (100, 98)
