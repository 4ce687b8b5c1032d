"""A log takes batches, gives them back, rolls, is cut, and stops for good when the disk fails."""

import errno
import threading
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from penstock.base.errors import StorageError
from penstock.records.batch import headers, read_header
from penstock.sim.disk import SimDisk
from penstock.storage import log_factory
from penstock.storage.errors import LogFailedError, NoRoomError
from penstock.storage.log import Log, LogConfig
from penstock.world.disk import Disk
from penstock.world.memory_disk import MemoryDisk
from penstock.world.real_disk import RealDisk
from tests.storage.helpers import (
    NOW_MS,
    PATH,
    TOPIC_ID,
    RememberedProducers,
    append,
    batch,
    close_cleanly,
    create_log,
    delete_old_segments,
    open_log,
    placed,
    read_all,
    sync,
)


@pytest.fixture(params=["memory", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return MemoryDisk() if request.param == "memory" else RealDisk(str(tmp_path))


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_what_is_appended_is_read_back_byte_for_byte(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_bytes=2000, index_interval_bytes=200))
    written = [append(log, batch(number * 2, 2, size=number * 7 % 200)) for number in range(100)]
    assert read_all(log) == written
    assert read_all(log, max_bytes=1) == written
    assert log.size == sum(map(len, written))
    assert len(log.segments) > 5


def test_several_batches_in_one_append_may_fall_into_several_segments(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_bytes=200))
    written = [batch(number, size=100) for number in range(5)]
    log.append([placed(data) for data in written], now_ms=NOW_MS)
    assert read_all(log) == written
    assert bases(log) == [0, 1, 2, 3, 4]


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_bytes=100))
    append(log, batch(0, size=500))
    append(log, batch(1, size=5))
    assert bases(log) == [0, 1]


def test_the_first_batch_comes_whole_or_not_at_all(disk: Disk) -> None:
    log = create_log(disk)
    data = append(log, batch(0, size=500))
    append(log, batch(1, size=500))
    assert log.read(0, max_bytes=10, upto_offset=2) == data
    assert log.read(0, max_bytes=10, upto_offset=2, whole_first_batch=False) == b""
    cut = log.read(0, max_bytes=len(data) + 20, upto_offset=2)
    assert cut is not None
    assert len(cut) == len(data) + 20, "a later batch may be cut"


def test_nothing_at_or_above_the_limit_is_read(disk: Disk) -> None:
    log = create_log(disk, LogConfig(index_interval_bytes=100))
    written = [append(log, batch(number, size=40)) for number in range(100)]
    for upto in (1, 37, 99, 100):
        data = log.read(0, max_bytes=1 << 20, upto_offset=upto)
        assert data == b"".join(written[:upto])
    assert log.read(50, max_bytes=1 << 20, upto_offset=50) == b""


def test_the_first_batch_comes_even_if_nothing_fits_and_the_limit_is_near(disk: Disk) -> None:
    log = create_log(disk, LogConfig(index_interval_bytes=0))
    written = [append(log, batch(number * 4, 4)) for number in range(40)]
    for number in range(39):
        for upto in (number * 4 + 4, 39 * 4):
            assert log.read(number * 4, max_bytes=0, upto_offset=upto) == written[number]


def test_a_fetch_from_the_middle_of_a_batch_gets_the_whole_batch(disk: Disk) -> None:
    log = create_log(disk)
    append(log, batch(0, 5))
    second = append(log, batch(5, 5))
    assert log.read(7, max_bytes=1000, upto_offset=10) == second


def test_reading_without_waiting_says_so_when_it_would_have_to_wait() -> None:
    disk = SimDisk(Random(0)).mount()
    log = create_log(disk)
    append(log, batch(0))
    disk.faults.nothing_is_cached = True
    assert log.read(0, max_bytes=10, upto_offset=1, cached_only=True) is None
    assert log.read(0, max_bytes=10, upto_offset=1, cached_only=False)


def test_readers_at_the_tail_need_no_index() -> None:
    disk = MemoryDisk()
    log = create_log(disk, LogConfig(index_interval_bytes=0))
    written = [append(log, batch(number)) for number in range(500)]
    log.segments[-1].index = None  # type: ignore[assignment]
    for offset in range(490, 500):
        assert log.read(offset, max_bytes=1 << 20, upto_offset=500) == b"".join(written[offset:])


def test_an_index_without_room_makes_the_log_roll(disk: Disk) -> None:
    log = create_log(disk, LogConfig(index_interval_bytes=0, segment_index_bytes=80))
    written = [append(log, batch(number, timestamp=NOW_MS)) for number in range(30)]
    assert bases(log)[:3] == [0, 11, 22]
    assert read_all(log) == written


def test_offsets_too_far_from_the_base_make_the_log_roll(disk: Disk) -> None:
    log = create_log(disk)
    append(log, batch(0))
    append(log, batch(1 << 31))
    assert bases(log) == [0, 1 << 31]
    far = create_log(MemoryDisk())
    append(far, batch(1 << 40))
    assert bases(far) == [1 << 40], "an empty segment with the wrong base is replaced"


def test_time_rolls_by_the_timestamps_of_the_records(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_ms=1000))
    append(log, batch(0, timestamp=NOW_MS))
    append(log, batch(1, timestamp=NOW_MS + 1000), now_ms=NOW_MS + 50_000)
    assert bases(log) == [0]
    append(log, batch(2, timestamp=NOW_MS + 1001))
    assert bases(log) == [0, 2]


def test_jitter_rolls_earlier_but_never_later(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_ms=1000, segment_jitter_ms=400))
    append(log, batch(0, timestamp=NOW_MS))
    append(log, batch(1, timestamp=NOW_MS + 599))
    assert bases(log) == [0]
    append(log, batch(2, timestamp=NOW_MS + 1001))
    assert bases(log) == [0, 2]


def test_a_compacted_log_rolls_in_time_for_the_compaction_lag(disk: Disk) -> None:
    log = create_log(disk, LogConfig(compact=True, max_compaction_lag_ms=500))
    append(log, batch(0, timestamp=NOW_MS))
    append(log, batch(1, timestamp=NOW_MS + 501))
    assert bases(log) == [0, 1]


def test_rolling_twice_makes_one_segment(disk: Disk) -> None:
    log = create_log(disk)
    append(log, batch(0))
    log.roll(now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    assert bases(log) == [0, 1]


def test_a_cut_removes_whole_batches_and_later_segments(disk: Disk) -> None:
    producers = RememberedProducers()
    log = create_log(disk, LogConfig(segment_bytes=300), producers)
    written = [
        append(log, batch(number * 2, 2, producer_id=3, sequence=number * 2, epoch=number // 5))
        for number in range(20)
    ]
    log.truncate_to(13)
    assert log.end_offset == 12
    assert read_all(log) == written[:6]
    assert [entry.last_offset for entry in producers.entries()] == [11]
    assert log.epochs.latest_epoch == 1
    more = append(log, batch(12, epoch=7))
    assert read_all(log) == [*written[:6], more]
    assert log.epochs.epoch_at(12) == 7


def test_a_log_that_is_emptied_goes_on_elsewhere(disk: Disk) -> None:
    producers = RememberedProducers()
    log = create_log(disk, LogConfig(segment_bytes=300), producers)
    for number in range(20):
        append(log, batch(number, producer_id=1, sequence=number))
    log.truncate_fully(1000, now_ms=NOW_MS)
    assert (log.start_offset, log.end_offset, log.size, producers.entries()) == (1000, 1000, 0, [])
    data = append(log, batch(1000))
    assert read_all(log) == [data]
    assert [name for name in disk.list(PATH) if name.endswith(".log")] == [f"{1000:020d}.log"]


def test_a_sync_that_a_cut_overtakes_proves_nothing(disk: Disk) -> None:
    log = create_log(disk)
    for number in range(10):
        append(log, batch(number))
    plan = log.unsynced()
    plan.run(disk)
    log.truncate_to(5)
    append(log, batch(5, 5))
    log.synced(plan)
    assert log.recovery_point == 0


def test_a_sync_names_new_files_and_their_directory(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_bytes=150))
    append(log, batch(0, size=100))
    first = log.unsynced()
    assert set(first.directories) == {PATH, ""}
    append(log, batch(1, size=100))
    log.synced(first)
    assert log.recovery_point == 1
    second = log.unsynced()
    assert second.directories != (), "the roll came after the first plan was made"
    paths = {file.path.rpartition("/")[2] for file in second.files}
    closed = f"{0:020d}"
    assert paths >= {closed + ".index", closed + ".timeindex", f"{1:020d}.log", f"{1:020d}.snapshot"}
    second.run(disk)
    log.synced(second)
    assert log.unsynced()[1:3] == ((), ())


def test_what_comes_to_a_segment_during_a_sync_is_synced_by_the_next_even_if_it_was_rolled() -> None:
    machine = SimDisk(Random(0))
    disk = machine.mount()
    log = create_log(disk)
    written = [append(log, batch(0))]
    plan = log.unsynced()
    plan.run(disk)
    written.append(append(log, batch(1)))
    log.roll(now_ms=NOW_MS)
    log.synced(plan)
    assert log.recovery_point == 1
    sync(log, disk)
    assert log.recovery_point == 2
    machine.crash_machine()
    log, _ = open_log(machine.mount(), recovery_point=2)
    assert read_all(log) == written


def test_segments_removed_while_a_sync_is_under_way_do_not_fail_it(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_bytes=150, retention_bytes=0, file_delete_delay_ms=0))
    for number in range(5):
        append(log, batch(number, size=100))
    plan = log.unsynced()
    delete_old_segments(log, NOW_MS)
    for deletion in log.due_deletions(NOW_MS):
        deletion.run(disk)
    plan.run(disk)
    log.synced(plan)
    assert log.recovery_point == 5


def test_a_failed_append_is_final_and_leaves_what_was_there() -> None:
    disk = SimDisk(Random(0)).mount()
    log = create_log(disk)
    data = append(log, batch(0))
    disk.faults.fail_appends(errno.EIO)
    with pytest.raises(StorageError, match="append failed"):
        append(log, batch(1))
    with pytest.raises(LogFailedError, match="offline"):
        append(log, batch(1))
    with pytest.raises(LogFailedError):
        log.unsynced()
    assert log.read(0, max_bytes=100, upto_offset=1) == data
    assert log.end_offset == 1


def test_an_append_for_which_there_is_no_room_leaves_the_log_as_it_was_and_may_succeed_later() -> None:
    disk = SimDisk(Random(0)).mount()
    log = create_log(disk)
    data = append(log, batch(0))
    disk.faults.full = True
    with pytest.raises(NoRoomError, match="no room"):
        append(log, batch(1))
    assert (log.end_offset, log.failed) == (1, None)
    disk.faults.full = False
    data += append(log, batch(1))
    assert log.read(0, max_bytes=1000, upto_offset=2) == data


def test_a_failed_sync_raises_and_the_first_reason_stays() -> None:
    disk = SimDisk(Random(0)).mount()
    log = create_log(disk)
    append(log, batch(0))
    disk.faults.fail_syncs()
    plan = log.unsynced()
    with pytest.raises(OSError, match="Input/output"):
        plan.run(disk)
    log.fail("sync failed")
    log.fail("something else")
    assert log.failed == "sync failed"


def test_readers_in_other_threads_see_whole_batches_while_the_log_moves_on(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path), open_files_max=4)
    config = LogConfig(
        segment_bytes=4000, index_interval_bytes=100, retention_bytes=20_000, file_delete_delay_ms=0
    )
    log = create_log(disk, config)
    append(log, batch(0))
    stop = threading.Event()
    problems: list[str] = []
    reads = 0
    # As with a high watermark: it follows an append that is complete, the log's own end moves in the middle of one.
    readable_upto = log.end_offset

    def read_forever() -> None:
        nonlocal reads
        offset = 0
        while not stop.is_set():
            upto = readable_upto
            offset = max(offset, log.start_offset)
            if offset >= upto:
                offset = log.start_offset
                continue
            data = log.read(offset, max_bytes=700, upto_offset=upto)
            assert data is not None
            if not data:
                if offset >= log.start_offset:
                    problems.append(f"nothing at {offset} below {upto}")
                continue
            found = [header for _, header in headers(data)]
            if found[0].base_offset != offset or found[-1].next_offset > upto:
                problems.append(f"{found[0].base_offset} at {offset}, {found[-1].next_offset} above {upto}")
            offset = found[-1].next_offset
            reads += 1

    threads = [threading.Thread(target=read_forever) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 2500):
        append(log, batch(number, size=number % 90))
        readable_upto = log.end_offset
        if number % 50 == 0:
            delete_old_segments(log, NOW_MS)
            for deletion in log.due_deletions(NOW_MS):
                deletion.run(disk)
    stop.set()
    for thread in threads:
        thread.join()
    assert sorted(set(problems)) == []
    assert reads > 100
    assert disk.open_files <= 8


def test_partition_metadata_names_the_topic(disk: Disk) -> None:
    log = create_log(disk)
    close_cleanly(log, disk)
    reopened, _ = open_log(disk, clean=True)
    assert reopened.topic_id == TOPIC_ID


def test_earlier_epochs_end_where_later_ones_begin(disk: Disk) -> None:
    log = create_log(disk)
    for number, epoch in enumerate([0, 0, 2, 2, 5]):
        append(log, batch(number, epoch=epoch))
    epochs = log.epochs
    assert epochs.end_offset(0, log_end_offset=5) == (0, 2)
    assert epochs.end_offset(1, log_end_offset=5) == (0, 2)
    assert epochs.end_offset(2, log_end_offset=5) == (2, 4)
    assert epochs.end_offset(5, log_end_offset=5) == (5, 5)
    assert epochs.end_offset(6, log_end_offset=5) == (-1, -1)
    log.advance_start_offset(3)
    assert epochs.entries == [(2, 3), (5, 4)]
    assert epochs.end_offset(0, log_end_offset=5) == (0, 3)


def test_timestamps_lead_to_the_first_record_that_is_not_older(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_bytes=700, index_interval_bytes=100))
    for number in range(40):
        append(log, batch(number * 3, 3, timestamp=NOW_MS + number * 100, step_ms=10, epoch=number))
    found = log.offset_for_timestamp(NOW_MS + 1211)
    assert found == (NOW_MS + 1220, 38, 12)
    assert log.offset_for_timestamp(0) == (NOW_MS, 0, 0)
    assert log.offset_for_timestamp(NOW_MS + 3921) is None
    assert log.offset_of_max_timestamp() == (NOW_MS + 3920, 119, 39)
    log.advance_start_offset(38)
    assert log.offset_for_timestamp(0) == (NOW_MS + 1220, 38, 12)


def test_a_log_without_records_has_no_newest_one(disk: Disk) -> None:
    log = create_log(disk)
    assert log.offset_of_max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


def test_headers_are_read_from_any_offset(disk: Disk) -> None:
    log = create_log(disk, LogConfig(segment_bytes=300))
    written = [append(log, batch(number * 2, 2, size=50)) for number in range(10)]
    assert list(log.headers(7)) == [read_header(data) for data in written[3:]]
    sync(log, disk)


def test_many_logs_need_little_memory_and_few_open_files(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path), open_files_max=64)
    count = 300
    data = placed(batch(0, size=100))
    tracemalloc.start()
    logs = []
    for number in range(count):
        log = log_factory.create_log(
            disk,
            f"t-{number}",
            topic_id=TOPIC_ID,
            config=LogConfig(),
            producers=RememberedProducers(),
            now_ms=NOW_MS,
        )
        log.append([data], now_ms=NOW_MS)
        logs.append(log)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / count < 6000
    assert disk.open_files <= 64
