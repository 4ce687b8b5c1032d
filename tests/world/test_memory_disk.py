"""The disk in memory: the contract, its limit, and what it costs."""

import errno
import tracemalloc

import pytest

from penstock.world.memory_disk import CHUNK_BYTES, MemoryDisk
from tests.world.disk_contract import DiskContract, filled


class TestMemoryDisk(DiskContract):
    @pytest.fixture
    def disk(self) -> MemoryDisk:
        return MemoryDisk()


def test_a_full_disk_refuses_the_append_and_keeps_the_file_as_it_was() -> None:
    disk = MemoryDisk(size_max=10)
    file = filled(disk, "a", b"12345678")
    with pytest.raises(OSError) as refusal:
        file.append([b"9", b"10"])
    assert refusal.value.errno == errno.ENOSPC
    assert file.read(0, 99) == b"12345678"
    assert disk.usage().usable == 2


def test_what_is_cut_replaced_or_removed_can_be_used_again() -> None:
    disk = MemoryDisk(size_max=100)
    disk.make_dir("d")
    file = filled(disk, "d/a", b"x" * 40)
    filled(disk, "b", b"x" * 40)
    file.truncate(10)
    assert disk.usage().usable == 50
    disk.rename("b", "d/a")
    assert disk.usage().usable == 60
    disk.remove_tree("d")
    assert disk.usage().usable == 100


def test_memory_follows_the_content_closely() -> None:
    disk = MemoryDisk()
    file = disk.open("a", create=True)
    batch = b"x" * 16_384
    tracemalloc.start()
    try:
        for _ in range(1024):
            file.append([batch])
        used, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 1.2 * file.size
    assert peak < 1.3 * file.size + 2 * CHUNK_BYTES


def test_reading_a_closed_part_of_the_file_copies_nothing() -> None:
    file = filled(MemoryDisk(), "a", b"x" * (2 * CHUNK_BYTES))
    first, second = file.read_cached(0, 1000), file.read_cached(10, 1000)
    assert isinstance(first, memoryview)
    assert isinstance(second, memoryview)
    assert first.obj is second.obj


def test_a_name_of_one_kind_does_not_replace_the_other() -> None:
    disk = MemoryDisk()
    disk.make_dir("full/inner")
    disk.make_dir("empty")
    filled(disk, "file", b"")
    for source, target in (("file", "full"), ("empty", "full"), ("empty", "file")):
        with pytest.raises(OSError):
            disk.rename(source, target)
    disk.rename("full", "empty")
    assert disk.list() == ["empty", "file"]
    with pytest.raises(FileExistsError):
        disk.make_dir("file/below")
    with pytest.raises(NotADirectoryError):
        disk.list("file")
    with pytest.raises(IsADirectoryError):
        disk.remove("empty")
