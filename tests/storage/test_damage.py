"""Bytes of a log that decay below the recovery point: never served, said once, and nothing else is lost for them."""

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.records.batch import HEADER_SIZE, headers
from penstock.sim.bit_rot import is_detectable
from penstock.storage import file_names
from penstock.storage.damage import BatchesDamaged
from penstock.storage.errors import CorruptionError
from penstock.storage.log import Log, LogConfig
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_disk import RealDisk
from tests.storage.helpers import NOW_MS, append, batch, cleanly_closed_log, create_log, open_log

COUNT = 6
SIZE = 50
CONFIG = LogConfig(index_interval_bytes=150)
PATH = f"orders-0/{file_names.file_name(0, file_names.LOG)}"


def closed_log(disk: MemoryDisk, *, rolled: bool) -> list[bytes]:
    return cleanly_closed_log(disk, config=CONFIG, batches=COUNT, size=SIZE, rolled=rolled)


def reopened(disk: MemoryDisk) -> Log:
    return open_log(disk, config=CONFIG, recovery_point=2 * COUNT, clean=True)[0]


def overwrite(disk: MemoryDisk, data: bytes) -> None:
    file = disk.open(PATH)
    file.truncate(0)
    file.append([data])
    file.close()


def read(log: Log, offset: int, max_bytes: int = 1 << 20) -> bytes:
    """As a consumer reads: on the loop if it can be, else off it."""
    data = log.read(offset, max_bytes=max_bytes, upto_offset=log.end_offset, cached_only=True)
    if data is None:
        data = log.read(offset, max_bytes=max_bytes, upto_offset=log.end_offset)
    assert data is not None
    return bytes(data)


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    for position in range(len(data)):
        if is_detectable(PATH, data, position):
            flipped = bytearray(data)
            flipped[position] ^= 1 << (position % 8)
            yield position, bytes(flipped)


def at(data: bytes, position: int) -> int:
    """The number of the batch that has a byte of the file."""
    return next(n for n, (start, header) in enumerate(headers(data)) if position < start + header.size)


@pytest.mark.parametrize("rolled", [True, False], ids=["closed", "active"])
def test_what_decayed_is_an_error_and_everything_else_is_served(rolled: bool) -> None:
    disk = MemoryDisk()
    written = closed_log(disk, rolled=rolled)
    good = b"".join(written)
    for position, flipped in flips(good):
        overwrite(disk, flipped)
        log = reopened(disk)
        damaged = at(good, position)
        if log.end_offset != 2 * COUNT or any(segment.damage for segment in log.segments):
            continue  # the start has noticed it by itself, and checked everything
        for number in range(COUNT):
            for offset in (2 * number, 2 * number + 1):
                if number == damaged:
                    with pytest.raises(CorruptionError):
                        read(log, offset, max_bytes=10)
                else:
                    assert read(log, offset, max_bytes=10) == written[number], (position, offset)
        if damaged:
            assert read(log, 0) == b"".join(written[:damaged]), "what is before it comes"
        (found,) = [each for each in log.take_findings() if isinstance(each, BatchesDamaged)]
        assert (found.damage.first_offset, found.damage.next_offset) == (2 * damaged, 2 * damaged + 2)
        assert log.checkpoint_offset == 2 * COUNT, "a start that does not read it finds nothing to cut"


def test_what_was_checked_once_is_read_on_the_loop_and_what_was_not_is_not() -> None:
    disk = MemoryDisk()
    written = closed_log(disk, rolled=False)
    log = reopened(disk)
    assert log.read(0, max_bytes=1 << 20, upto_offset=2 * COUNT, cached_only=True) is None
    assert log.read(4, max_bytes=len(written[2]), upto_offset=2 * COUNT) == written[2]
    assert log.read(4, max_bytes=len(written[2]), upto_offset=2 * COUNT, cached_only=True) == written[2]
    assert log.read(2, max_bytes=1 << 20, upto_offset=2 * COUNT, cached_only=True) is None
    assert log.read(0, max_bytes=1 << 20, upto_offset=2 * COUNT) == b"".join(written)
    assert log.read(0, max_bytes=1 << 20, upto_offset=2 * COUNT, cached_only=True) == b"".join(written)
    new = append(log, batch(base_offset=2 * COUNT))
    assert log.read(2 * COUNT, max_bytes=100, upto_offset=2 * COUNT + 1, cached_only=True) == new


def test_what_a_broker_wrote_is_checked_when_it_comes_from_the_device_again() -> None:
    disk = MemoryDisk()
    log = create_log(disk)
    append(log, batch(0))
    good = append(log, batch(1))
    content = bytearray(log.segments[0].file.read(0, 1000))
    content[HEADER_SIZE + 3] ^= 8
    overwrite(disk, bytes(content))
    with pytest.raises(CorruptionError):
        log.read(0, max_bytes=1000, upto_offset=2)
    assert log.read(1, max_bytes=1000, upto_offset=2) == good
    again = log.take_findings()
    assert len(again) == 1
    with pytest.raises(CorruptionError):
        log.read(0, max_bytes=1000, upto_offset=2)
    assert log.take_findings() == []


def test_a_search_by_time_does_not_believe_what_decayed() -> None:
    disk = MemoryDisk()
    written = closed_log(disk, rolled=True)
    good = b"".join(written)
    for position, flipped in flips(good):
        if at(good, position) != 2:
            continue
        overwrite(disk, flipped)
        log = reopened(disk)
        for number in range(COUNT):
            try:
                found = log.offset_for_timestamp(NOW_MS + number)
            except CorruptionError:
                continue
            assert found is not None
            assert found.offset == 2 * number


def test_damage_that_a_cut_takes_away_is_gone() -> None:
    disk = MemoryDisk()
    written = closed_log(disk, rolled=False)
    content = bytearray(b"".join(written))
    content[-1] ^= 1
    overwrite(disk, bytes(content))
    log = reopened(disk)
    with pytest.raises(CorruptionError):
        read(log, 2 * COUNT - 1)
    log.truncate_to(2 * COUNT - 2)
    again = append(log, written[-1])
    assert read(log, 2 * COUNT - 2) == again


def test_who_reads_while_the_end_is_cut_off_takes_nothing_for_damage(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    log = create_log(disk, config=LogConfig(segment_bytes=2_000, index_interval_bytes=200))
    is_over = threading.Event()
    problems: list[BaseException] = []

    def read_forever() -> None:
        try:
            while not is_over.is_set():
                for offset in range(0, 40, 3):
                    log.read(offset, max_bytes=5_000, upto_offset=log.end_offset)
        except BaseException as error:
            problems.append(error)

    readers = [threading.Thread(target=read_forever) for _ in range(2)]
    for reader in readers:
        reader.start()
    chance = Random(5)
    for epoch in range(60):
        while log.end_offset < 40:
            append(log, batch(log.end_offset, size=chance.randint(10, 300), epoch=epoch))
        log.truncate_to(chance.randint(0, 39))
    is_over.set()
    for reader in readers:
        reader.join()
    assert problems == []
    assert log.take_findings() == []
    assert not any(segment.damage for segment in log.segments)
