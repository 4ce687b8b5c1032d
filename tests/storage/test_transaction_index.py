"""The transaction index: the aborted transactions that consumers get, the file, and what a crash leaves of it."""

import pytest

from penstock.core.producer_state import ProducerStates
from penstock.records.batch import place, read_header
from penstock.records.builder import build_batch
from penstock.records.control import Marker, MarkerType, build_marker
from penstock.records.producer import AbortedTransaction
from penstock.records.record import Record
from penstock.storage.log import Log, LogConfig
from penstock.storage.transaction_index import ENTRY_SIZE, TransactionIndex
from penstock.world.disk import Disk
from penstock.world.memory_disk import MemoryDisk
from tests.storage.helpers import (
    NOW_MS,
    PATH,
    close_cleanly,
    create_log,
    delete_old_segments,
    open_log,
    sync,
)

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT


class TransactionalLog:
    """A log with producers that write in transactions."""

    def __init__(self, disk: Disk, config: LogConfig = SMALL) -> None:
        self.disk = disk
        self.config = config
        self.producers = ProducerStates()
        self.log: Log = create_log(disk, config, self.producers)  # type: ignore[arg-type]

    def write(self, producer: int, *, key: str = "k", value: str | None = "v") -> int:
        """One transactional record; its offset."""
        raw = None if value is None else value.encode()
        record = Record(0, NOW_MS, key.encode(), raw, ())
        return self._append(
            build_batch([record], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
        )

    def mark(self, kind: MarkerType, producer: int) -> int:
        return self._append(build_marker(Marker(kind, producer, 0, 0), timestamp=NOW_MS))

    def _append(self, batch: bytes) -> int:
        offset = self.log.end_offset
        placed = place(memoryview(batch), read_header(batch), base_offset=offset, leader_epoch=0)
        self.log.append([placed], now_ms=NOW_MS)
        return offset

    def reopen(self, *, clean: bool, recovery_point: int | None = None) -> None:
        recovery_point = self.log.recovery_point if recovery_point is None else recovery_point
        self.producers = ProducerStates()
        self.log, _ = open_log(
            self.disk,
            self.config,
            self.producers,  # type: ignore[arg-type]
            recovery_point=recovery_point,
            clean=clean,
        )

    def aborted(self, from_offset: int = 0, upto_offset: int | None = None) -> list[AbortedTransaction]:
        upto_offset = self.log.end_offset if upto_offset is None else upto_offset
        return self.log.aborted_transactions(from_offset=from_offset, upto_offset=upto_offset)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def written(disk: MemoryDisk) -> TransactionalLog:
    return TransactionalLog(disk)


def many_transactions(log: TransactionalLog, count: int = 30) -> None:
    """Every third is aborted; producers take turns, and one transaction spans them all."""
    log.write(99)
    for number in range(count):
        producer = number % 4
        log.write(producer)
        log.mark(ABORT if number % 3 == 0 else COMMIT, producer)
    log.mark(ABORT, 99)


def test_aborted_transactions_that_overlap_with_a_range_are_found(written: TransactionalLog):
    first = written.write(1)
    marker = written.mark(ABORT, 1)
    written.write(2)
    written.mark(COMMIT, 2)
    assert [entry.producer_id for entry in written.aborted()] == [1]
    assert written.aborted(from_offset=marker)
    assert not written.aborted(from_offset=marker + 1)
    assert not written.aborted(upto_offset=first)


def test_a_transaction_that_ends_segments_later_is_found_from_its_beginning(written: TransactionalLog):
    many_transactions(written)
    assert len(written.log.segments) > 5
    assert 99 in [entry.producer_id for entry in written.aborted(0, 1)]
    assert 99 in [entry.producer_id for entry in written.aborted(5, 6)]


def test_the_search_ends_where_nothing_more_can_overlap():
    index = TransactionIndex()
    index.add(AbortedTransaction(1, 0, 5, 6))
    index.add(AbortedTransaction(2, 6, 8, 9))
    found: list[AbortedTransaction] = []
    assert index.collect(found, from_offset=0, upto_offset=6)
    assert [entry.producer_id for entry in found] == [1]
    assert not index.collect(found, from_offset=0, upto_offset=100)


def test_whether_there_are_any_is_known_without_looking_at_them(written: TransactionalLog):
    assert not written.log.has_aborted_from(0)
    many_transactions(written)
    last = written.aborted()[-1].last_offset
    assert written.log.has_aborted_from(0)
    assert written.log.has_aborted_from(last)
    assert not written.log.has_aborted_from(last + 1)


@pytest.mark.parametrize("clean", [True, False])
def test_it_is_the_same_after_a_restart(written: TransactionalLog, disk: MemoryDisk, clean: bool):
    many_transactions(written)
    expected, entries = written.aborted(), written.producers.entries()
    if clean:
        close_cleanly(written.log, disk)
    else:
        sync(written.log, disk)
    written.reopen(clean=clean)
    assert written.aborted() == expected
    assert written.producers.entries() == entries


def test_after_a_crash_everything_behind_the_recovery_point_is_made_again(written: TransactionalLog):
    many_transactions(written)
    expected = written.aborted()
    for recovery_point in range(0, written.log.end_offset, 7):
        written.reopen(clean=False, recovery_point=recovery_point)
        assert written.aborted() == expected


def test_a_clean_stop_and_then_a_crash_keep_both_halves(written: TransactionalLog, disk: MemoryDisk):
    written.write(1)
    written.mark(ABORT, 1)
    close_cleanly(written.log, disk)
    written.reopen(clean=True)
    written.write(2)
    written.mark(ABORT, 2)
    expected = written.aborted()
    assert len(expected) == 2
    written.reopen(clean=False)
    assert written.aborted() == expected


def test_an_index_that_outlived_its_markers_is_cut_where_the_log_ends(
    written: TransactionalLog, disk: MemoryDisk
):
    written.write(1)
    close_cleanly(written.log, disk)  # with a snapshot of the producers at the end
    written.reopen(clean=True)
    end_offset, segment = written.log.end_offset, written.log.segments[-1]
    size = segment.size
    written.mark(ABORT, 1)
    segment.write_transaction_index()
    segment.file.truncate(size)  # the device has the index, and not the marker
    written.reopen(clean=False, recovery_point=end_offset)
    assert (written.log.end_offset, written.aborted()) == (end_offset, [])
    written.mark(ABORT, 1)
    assert [entry.last_offset for entry in written.aborted()] == [end_offset]


def test_a_damaged_index_file_is_made_again_from_the_batches(written: TransactionalLog, disk: MemoryDisk):
    many_transactions(written)
    expected = written.aborted()
    close_cleanly(written.log, disk)
    files = [name for name in disk.list(PATH) if name.endswith(".txnindex")]
    assert len(files) > 2
    for name, content in zip(files, (b"short", b"\x7f" * ENTRY_SIZE, b""), strict=False):
        disk.remove(f"{PATH}/{name}")
        disk.open(f"{PATH}/{name}", create=True).append([content])
    written.reopen(clean=True)
    assert written.aborted() == expected
    sync(written.log, disk)
    assert TransactionIndex.load(disk, f"{PATH}/{files[0]}").is_broken is False


def test_an_open_transaction_is_still_open_after_a_crash(written: TransactionalLog, disk: MemoryDisk):
    many_transactions(written)
    first = written.write(7)
    sync(written.log, disk)
    written.reopen(clean=False)
    written.producers.transactions.settle(written.log.end_offset)
    assert written.producers.transactions.first_unstable_offset == first
    written.mark(ABORT, 7)
    assert written.aborted()[-1].first_offset == first


def test_a_log_that_takes_the_place_of_another_knows_none_of_its_transactions(written: TransactionalLog):
    written.write(7)
    second = MemoryDisk()
    written.log = create_log(second, SMALL, written.producers)  # type: ignore[arg-type]
    assert written.producers.transactions.first_unstable_offset is None
    written.write(8)
    first = written.write(7)
    written.mark(ABORT, 7)
    assert [entry.first_offset for entry in written.aborted()] == [first]


def test_cutting_the_log_takes_entries_and_open_transactions_along(written: TransactionalLog):
    many_transactions(written)
    before = written.aborted()
    cut = before[4].last_offset
    written.log.truncate_to(cut)
    assert written.aborted() == before[:4]
    assert written.producers.transactions.first_unstable_offset == 0
    written.mark(ABORT, before[4].producer_id)
    assert written.aborted() == before[:5]


def test_deleting_segments_deletes_their_entries(written: TransactionalLog, disk: MemoryDisk):
    many_transactions(written)
    written.log.config = LogConfig(segment_bytes=400, retention_bytes=0, file_delete_delay_ms=0)
    delete_old_segments(written.log, NOW_MS)
    for deletion in written.log.due_deletions(NOW_MS + 1):
        deletion.run(disk)
    start = written.log.start_offset
    assert start > 10
    assert all(entry.last_offset >= start for entry in written.aborted())
    assert not [name for name in disk.list(PATH) if name.endswith(".txnindex") and int(name[:20]) < start]


def test_the_file_is_kafkas_format(written: TransactionalLog, disk: MemoryDisk):
    written.write(3)
    written.mark(ABORT, 3)
    written.log.roll(now_ms=NOW_MS)
    file = disk.open(f"{PATH}/{0:020d}.txnindex")
    numbers = ((0, 2), (3, 8), (0, 8), (1, 8), (2, 8))  # version, producer, first, last, last stable
    assert file.read(0, 100) == b"".join(number.to_bytes(size, "big") for number, size in numbers)


def test_a_segment_without_aborted_transactions_has_no_file(written: TransactionalLog, disk: MemoryDisk):
    written.write(3)
    written.mark(COMMIT, 3)
    written.log.roll(now_ms=NOW_MS)
    assert not [name for name in disk.list(PATH) if name.endswith(".txnindex")]


def test_a_bit_that_flipped_anywhere_in_an_index_of_aborted_transactions_changes_no_answer() -> None:
    disk = MemoryDisk()
    written = TransactionalLog(disk, LogConfig(segment_bytes=1 << 20))
    for producer in (1, 2, 3, 1):
        written.write(producer)
    for producer in (2, 1, 3):
        written.mark(ABORT, producer)
    end_offset = written.log.end_offset
    expected = written.log.aborted_transactions(from_offset=0, upto_offset=end_offset)
    assert len(expected) == 3
    written.log.roll(now_ms=NOW_MS)
    close_cleanly(written.log, disk)
    path = f"{PATH}/{0:020d}.txnindex"
    file = disk.open(path)
    good = bytes(file.read(0, file.size))
    damaged = [bytes([*good[:at], good[at] ^ 1 << at % 8, *good[at + 1 :]]) for at in range(len(good))]
    for content in [*damaged, good[:ENTRY_SIZE], b""]:
        file.truncate(0)
        file.append([content])
        again, report = open_log(
            disk,
            LogConfig(segment_bytes=1 << 20),
            ProducerStates(),  # type: ignore[arg-type]
            recovery_point=end_offset,
            clean=True,
        )
        assert again.aborted_transactions(from_offset=0, upto_offset=end_offset) == expected
        assert any("transaction index" in line for line in report.problems())
        again.close()
        file = disk.open(path)


def test_an_index_of_aborted_transactions_that_is_gone_is_made_again() -> None:
    disk = MemoryDisk()
    written = TransactionalLog(disk)
    written.write(1)
    written.mark(ABORT, 1)
    close_cleanly(written.log, disk)
    disk.remove(f"{PATH}/{0:020d}.txnindex")
    written.reopen(clean=True)
    assert len(written.log.aborted_transactions(from_offset=0, upto_offset=2)) == 1
