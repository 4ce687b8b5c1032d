"""The sparse indexes: Kafka's bytes in the files, and the right neighbourhood for every question."""

import struct
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.producer import EarlierBatch, ProducerEntry
from penstock.sim.disk import SimDisk
from penstock.storage.index_cache import IndexCache
from penstock.storage.leader_epoch_checkpoint import decode_epochs
from penstock.storage.producer_snapshots import decode_snapshot, encode_snapshot
from penstock.storage.segment_index import SegmentIndex
from penstock.world.disk import read_file
from penstock.world.memory_disk import MemoryDisk

BASE = 1 << 40


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir("p")
    return disk


def test_entries_lie_in_the_files_as_kafka_writes_them(disk: MemoryDisk) -> None:
    index = SegmentIndex(disk, "p", BASE)
    index.offsets.add(last_offset=BASE + 7, position=4100)
    index.times.add(1_700_000_000_123, offset=BASE + 5)
    index.offsets.add(last_offset=BASE + 70_000, position=1 << 30)
    index.times.add((1 << 40) + 17, offset=BASE + 6)
    index.times.add(1_700_000_000_124, offset=BASE + 70_000)
    index.write()
    assert read_file(disk, index.offsets.path) == struct.pack(">4i", 7, 4100, 70_000, 1 << 30)
    assert read_file(disk, index.times.path) == struct.pack(
        ">qiqi", 1_700_000_000_123, 5, 1_700_000_000_124, 70_000
    )
    assert index.offsets.path == "p/00000001099511627776.index"


@given(
    gaps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), max_size=60),
    written=st.lists(st.booleans(), max_size=60),
    asked=st.integers(0, 4000),
)
def test_the_floor_is_the_last_entry_not_behind_the_offset(
    gaps: list[tuple[int, int]], written: list[bool], asked: int
) -> None:
    disk = MemoryDisk()
    disk.make_dir("p")
    index = SegmentIndex(disk, "p", BASE)
    entries = [(0, 0)]
    for number, (offset_gap, position_gap) in enumerate(gaps):
        offset, position = entries[-1][0] + offset_gap, entries[-1][1] + position_gap
        entries.append((offset, position))
        index.offsets.add(last_offset=BASE + offset, position=position)
        if number < len(written) and written[number]:
            index.write()
    for found in (index, _reread(disk, index)):
        position, following = found.offsets.floor(BASE + asked) or (-1, None)
        for (offset, at), (next_offset, next_at) in pairwise([*entries, (1 << 30, -1)]):
            if offset <= asked < next_offset:
                assert position == at
                assert following == (None if next_at == -1 else next_at)


def _reread(disk: MemoryDisk, index: SegmentIndex) -> SegmentIndex:
    index.write()
    return SegmentIndex(disk, "p", BASE, in_files=True)


def test_a_cut_reaches_into_the_files(disk: MemoryDisk) -> None:
    index = SegmentIndex(disk, "p", 0)
    for number in range(1, 11):
        index.offsets.add(last_offset=number * 10, position=number * 100)
        index.times.add(number * 1000, offset=number * 10)
        if number == 6:
            index.write()
    index.truncate_to(80)
    assert (index.offsets.entry_count, index.times.entry_count, index.times.last().timestamp) == (7, 7, 7000)
    index.truncate_to(45)
    assert (index.offsets.entry_count, index.times.entry_count, index.times.last().timestamp) == (4, 4, 4000)
    assert disk.size(index.offsets.path) == 32
    index.offsets.add(last_offset=50, position=500)
    index.write()
    assert index.offsets.floor(55) == (500, None)
    assert index.offsets.last_position() == 500


def test_what_is_loaded_is_forgotten_when_there_is_too_much_of_it(disk: MemoryDisk) -> None:
    cache = IndexCache(bytes_max=200)
    indexes = []
    for base in (0, 1000, 2000):
        index = SegmentIndex(disk, "p", base, cache=cache)
        for number in range(1, 11):
            index.offsets.add(last_offset=base + number, position=number)
        index.write()
        indexes.append(SegmentIndex(disk, "p", base, in_files=True, cache=cache))
    for index in indexes:
        assert index.offsets.floor(indexes.index(index) * 1000 + 5) == (5, 6)
    assert cache.bytes_loaded <= 200
    assert [index.offsets.is_loaded for index in indexes] == [False, True, True]
    assert indexes[0].offsets.floor(5) == (5, 6)
    assert [index.offsets.is_loaded for index in indexes] == [True, False, True], (
        "the least recently used one goes"
    )


def test_a_cached_only_lookup_does_not_load_the_index_from_disk() -> None:
    disk = SimDisk(Random(0)).mount()
    disk.make_dir("p")
    index = SegmentIndex(disk, "p", 0)
    index.offsets.add(last_offset=5, position=50)
    index.write()
    disk.faults.nothing_is_cached = True
    assert index.offsets.floor(6, cached_only=True) is None
    assert index.offsets.floor(6) == (50, None)
    assert index.offsets.floor(6, cached_only=True) == (50, None)


@pytest.mark.parametrize(
    "content",
    [b"", b"0\n", b"0\n1\n1 0", b"0\n2\n1 0\n", b"1\n0\n", b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 5\n"],
)
def test_an_epoch_checkpoint_that_is_not_whole_is_not_read(content: bytes) -> None:
    assert decode_epochs(content) is None


def test_an_epoch_checkpoint_reads_back() -> None:
    epochs = decode_epochs(b"0\n2\n1 0\n4 17\n")
    assert epochs is not None
    assert epochs.entries == [(1, 0), (4, 17)]
    assert epochs.encode() == b"0\n2\n1 0\n4 17\n"


def test_a_snapshot_reads_back_and_a_broken_one_does_not() -> None:
    earlier = (EarlierBatch(3, 4, 1, 2, 5), EarlierBatch(5, 5, 3, 3, 6))
    entries = [ProducerEntry(5, 1, 2, 3, 4, 5, -1, -1), ProducerEntry(1 << 50, 0, 9, 8, 7, 6, 5, 4, earlier)]
    content = encode_snapshot(entries)
    assert decode_snapshot(content) == entries
    assert decode_snapshot(encode_snapshot([])) == []
    for position in range(len(content)):
        broken = bytearray(content)
        broken[position] ^= 1
        assert decode_snapshot(bytes(broken)) is None
        assert decode_snapshot(content[:position]) is None
