"""Indexes have no checksum. One that is damaged is noticed where it is used, said, and made again from the batches."""

import struct
from collections.abc import Callable, Iterator
from random import Random

import pytest

from penstock.storage import file_names
from penstock.storage.log import Log, LogConfig
from penstock.world.memory_disk import MemoryDisk
from tests.storage.helpers import NOW_MS, append, batch, cleanly_closed_log, close_cleanly, open_log, read_all

ENTRY = struct.Struct(">iI")  # relative offset, position
CONFIG = LogConfig(index_interval_bytes=1)
COUNT = 12


def closed_log(disk: MemoryDisk, *, rolled: bool = True, size: int = 10) -> list[bytes]:
    return cleanly_closed_log(disk, config=CONFIG, batches=COUNT, size=size, rolled=rolled)


def reopened(disk: MemoryDisk) -> Log:
    return open_log(disk, config=CONFIG, recovery_point=2 * COUNT, clean=True)[0]


def content(disk: MemoryDisk, kind: str) -> bytes:
    file = disk.open(f"orders-0/{file_names.file_name(0, kind)}")
    return bytes(file.read(0, file.size))


def overwrite(disk: MemoryDisk, kind: str, data: bytes) -> None:
    file = disk.open(f"orders-0/{file_names.file_name(0, kind)}")
    file.truncate(0)
    file.append([data])
    file.close()


def flips(data: bytes) -> Iterator[bytes]:
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        yield bytes(flipped)


def read_from(log: Log, offset: int) -> bytes:
    """As a consumer reads: on the loop if it can be, else off it."""
    read = {"max_bytes": 200, "upto_offset": log.end_offset}
    data = log.read(offset, **read, cached_only=True)  # type: ignore[arg-type]
    if data is None:
        data = log.read(offset, **read)  # type: ignore[arg-type]
    assert data is not None
    return bytes(data)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda offset, position: (0, position), id="an offset too low"),
        pytest.param(lambda offset, position: (offset, position + (1 << 20)), id="a position behind the end"),
        pytest.param(lambda offset, position: (offset, position + 1), id="a position within a batch"),
        pytest.param(lambda offset, position: (offset, 0), id="a position too low"),
    ],
)
def test_every_batch_is_found_whatever_the_index_says(wrong: Callable[[int, int], tuple[int, int]]) -> None:
    disk = MemoryDisk()
    written = closed_log(disk)
    entries = list(ENTRY.iter_unpack(content(disk, file_names.INDEX)))
    for damaged in range(len(entries)):
        changed = [wrong(*entry) if index == damaged else entry for index, entry in enumerate(entries)]
        overwrite(disk, file_names.INDEX, b"".join(ENTRY.pack(*entry) for entry in changed))
        log = reopened(disk)
        for offset in range(2 * COUNT):
            assert read_from(log, offset).startswith(written[offset // 2])


@pytest.mark.parametrize("rolled", [True, False], ids=["closed", "active"])
def test_a_bit_that_flipped_anywhere_in_an_index_hides_nothing(rolled: bool) -> None:
    disk = MemoryDisk()
    written = closed_log(disk, rolled=rolled, size=2000)  # too large for an active one to be read as a whole
    good = content(disk, file_names.INDEX)
    for flipped in flips(good):
        overwrite(disk, file_names.INDEX, flipped)
        log = reopened(disk)
        for offset in range(2 * COUNT):
            data = log.read(offset, max_bytes=10, upto_offset=2 * COUNT)
            assert data == written[offset // 2]
        upto = log.read(0, max_bytes=1 << 20, upto_offset=2 * COUNT - 2)
        assert upto == b"".join(written[:-1]), "nothing at or above the limit is read"
        overwrite(disk, file_names.INDEX, good)


@pytest.mark.parametrize("rolled", [True, False], ids=["closed", "active"])
def test_a_bit_that_flipped_anywhere_in_a_time_index_hides_nothing(rolled: bool) -> None:
    disk = MemoryDisk()
    closed_log(disk, rolled=rolled, size=2000)
    good = content(disk, file_names.TIME_INDEX)
    for flipped in flips(good):
        overwrite(disk, file_names.TIME_INDEX, flipped)
        log = reopened(disk)
        for number in range(COUNT):
            found = log.offset_for_timestamp(NOW_MS + number)
            assert found is not None
            assert found.offset == 2 * number
        newest = log.offset_of_max_timestamp()
        assert newest is not None
        assert newest.timestamp == NOW_MS + COUNT - 1
        overwrite(disk, file_names.TIME_INDEX, good)


def test_retention_does_not_believe_a_time_index_that_no_batch_bears_out() -> None:
    disk = MemoryDisk()
    closed_log(disk)
    data = bytearray(content(disk, file_names.TIME_INDEX))
    data[-12:-4] = (NOW_MS - 1_000_000_000).to_bytes(8, "big")
    overwrite(disk, file_names.TIME_INDEX, bytes(data))
    config = LogConfig(index_interval_bytes=1, retention_ms=1000)
    log, _ = open_log(disk, config=config, recovery_point=2 * COUNT, clean=True)
    assert log.expired(NOW_MS) == 0
    assert log.expired(NOW_MS + 2000) == 1


def test_a_damaged_index_is_said_once_and_its_file_made_again() -> None:
    disk = MemoryDisk()
    written = closed_log(disk)
    good = content(disk, file_names.INDEX), content(disk, file_names.TIME_INDEX)
    overwrite(disk, file_names.INDEX, Random(1).randbytes(len(good[0])))
    log = reopened(disk)
    assert read_all(log) == written
    (found,) = log.take_findings()
    assert ".index" in found.why
    assert read_all(log, start=7)[0] == written[3]
    assert log.take_findings() == []
    log.write_rebuilt_indexes()
    assert (content(disk, file_names.INDEX), content(disk, file_names.TIME_INDEX)) == good
    log.close()
    assert read_all(reopened(disk)) == written
    assert log.take_findings() == []


def test_an_index_of_which_a_part_is_gone_is_made_again() -> None:
    disk = MemoryDisk()
    written = closed_log(disk)
    overwrite(disk, file_names.INDEX, content(disk, file_names.INDEX)[:-3])
    log = reopened(disk)
    assert read_all(log, start=9)[0] == written[4]
    assert len(log.take_findings()) == 1


def test_the_active_segment_goes_on_growing_while_its_index_is_made_again() -> None:
    disk = MemoryDisk()
    written = closed_log(disk, rolled=False, size=2000)
    data = bytearray(content(disk, file_names.INDEX))
    data[4:8] = (77).to_bytes(4, "big")
    overwrite(disk, file_names.INDEX, bytes(data))
    log = reopened(disk)
    written.append(append(log, batch(base_offset=2 * COUNT, count=2)))
    assert read_from(log, 1) == written[0]
    for number in range(COUNT + 1, COUNT + 40):
        written.append(append(log, batch(base_offset=2 * number, count=2)))
    log.roll(now_ms=NOW_MS)
    assert read_all(log) == written
    close_cleanly(log, disk)
    again, report = open_log(disk, config=CONFIG, recovery_point=log.end_offset, clean=True)
    assert report.problems() == []
    assert read_all(again) == written
    assert again.take_findings() == []
