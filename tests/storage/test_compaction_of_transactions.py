"""Compaction and transactions: aborted records go, markers stay as long as readers need them."""

import pytest

from penstock.records.batch import BatchHeader
from penstock.storage.compaction import cleanable
from penstock.storage.log import LogConfig
from penstock.world.memory_disk import MemoryDisk
from tests.storage.compacting import put, records_of, run_compaction
from tests.storage.helpers import NOW_MS, PATH, sync
from tests.storage.test_transaction_index import ABORT, COMMIT, TransactionalLog

COMPACTED = LogConfig(
    compact=True, delete=False, segment_bytes=10_000, index_interval_bytes=100, delete_retention_ms=1000
)


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def written(disk: MemoryDisk) -> TransactionalLog:
    return TransactionalLog(disk, COMPACTED)


def compact(written: TransactionalLog, *, now_ms: int = NOW_MS) -> None:
    written.log.roll(now_ms=NOW_MS)
    assert run_compaction(written.log, written.disk, now_ms=now_ms) is not None


def keys(written: TransactionalLog) -> list[tuple[bytes | None, int]]:
    controls = {header.base_offset for header in headers(written) if header.is_control}
    return [
        (record.key, record.offset) for record in records_of(written.log) if record.offset not in controls
    ]


def headers(written: TransactionalLog) -> list[BatchHeader]:
    return list(written.log.headers(0))


def markers(written: TransactionalLog) -> list[int]:
    return [header.base_offset for header in headers(written) if header.is_control and header.record_count]


def test_an_aborted_record_goes_and_supersedes_nothing(written: TransactionalLog):
    put(written.log, ("a", "good"))
    written.write(1, key="a")
    written.mark(ABORT, 1)
    compact(written)
    assert keys(written) == [(b"a", 0)]


def test_a_committed_record_supersedes_as_any_other(written: TransactionalLog):
    put(written.log, ("a", "old"))
    written.write(1, key="a")
    written.mark(COMMIT, 1)
    compact(written)
    assert keys(written) == [(b"a", 1)]


def test_a_committed_transaction_of_the_same_producer_outlives_an_aborted_one(written: TransactionalLog):
    written.write(1, key="a")
    written.mark(ABORT, 1)
    written.write(1, key="b")
    written.mark(COMMIT, 1)
    written.write(1, key="c")
    written.mark(ABORT, 1)
    compact(written)
    assert [key for key, _ in keys(written)] == [b"b"]


def test_a_marker_stays_while_a_record_of_its_transaction_does(written: TransactionalLog):
    written.write(1, key="a")
    marker = written.mark(COMMIT, 1)
    put(written.log, ("z", "1"))
    for now_ms in (NOW_MS, NOW_MS + 10_000, NOW_MS + 20_000):
        compact(written, now_ms=now_ms)
    assert markers(written) == [marker]


def test_an_unneeded_marker_goes_when_readers_have_had_time(written: TransactionalLog):
    written.write(1, key="a")
    marker = written.mark(ABORT, 1)
    written.write(1, key="b")
    last_marker = written.mark(COMMIT, 1)
    put(written.log, ("z", "1"))
    compact(written)  # takes the record away
    assert markers(written) == [marker, last_marker]
    assert len(written.aborted()) == 1
    compact(written, now_ms=NOW_MS)  # finds the marker unneeded, and says from when on it may go
    assert markers(written) == [marker, last_marker]
    assert not written.aborted()
    compact(written, now_ms=NOW_MS + 999)
    assert markers(written) == [marker, last_marker]
    compact(written, now_ms=NOW_MS + 1000)
    assert markers(written) == [last_marker]


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(written: TransactionalLog):
    first = written.write(1, key="a")
    written.mark(ABORT, 1)
    compact(written)
    kept = [header for header in headers(written) if not header.is_control]
    assert [(header.base_offset, header.record_count) for header in kept] == [(first, 0)]


def test_state_after_compaction_and_a_crash_is_the_same(written: TransactionalLog, disk: MemoryDisk):
    for number in range(12):
        written.write(number % 3, key=str(number % 5))
        written.mark(ABORT if number % 4 == 0 else COMMIT, number % 3)
    compact(written)
    sync(written.log, disk)
    aborted, records = written.aborted(), keys(written)
    written.reopen(clean=False)
    assert written.aborted() == aborted
    assert keys(written) == records
    assert written.producers.transactions.first_unstable_offset is None
    assert not [name for name in disk.list(PATH) if name.endswith((".swap", ".cleaned"))]


def test_nothing_is_compacted_from_the_first_open_transaction_on(written: TransactionalLog):
    put(written.log, ("a", "1"))
    written.log.roll(now_ms=NOW_MS)
    first = written.write(1, key="a")
    written.log.roll(now_ms=NOW_MS)
    put(written.log, ("a", "2"))
    written.log.roll(now_ms=NOW_MS)
    dirty = cleanable(written.log, cleaner_offset=0, upto_offset=first, now_ms=NOW_MS)
    assert dirty is not None
    assert dirty.end_offset == first
