"""Compaction keeps the newest record of each key, at its offset, and nothing a reader still needs is lost."""

import random

import pytest

from penstock.records.batch import read_header, restamp
from penstock.records.compression import Codec
from penstock.sim.disk import SimDisk
from penstock.sim.disk_faults import Revoked
from penstock.sim.disk_operations import DiskOperation
from penstock.storage import file_names
from penstock.storage.compaction import cleanable
from penstock.storage.errors import CorruptionError
from penstock.storage.log import Log, LogConfig
from penstock.world.memory_disk import MemoryDisk
from tests.storage.compacting import InlineWork, TickingLoop, put, records_of, run_compaction, table_of
from tests.storage.helpers import (
    NOW_MS,
    PATH,
    RememberedProducers,
    append,
    batch,
    close_cleanly,
    create_log,
    delete_old_segments,
    open_log,
    read_all,
    sync,
)

COMPACTED = LogConfig(compact=True, delete=False, segment_bytes=1000, index_interval_bytes=100)
DAY_MS = 86_400_000


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def log(disk: MemoryDisk) -> Log:
    return create_log(disk, COMPACTED)


def keys_and_offsets(log: Log) -> list[tuple[str, int]]:
    return [(record.key.decode(), record.offset) for record in records_of(log) if record.key]


def test_only_the_newest_record_of_each_key_stays_at_its_offset(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    put(log, ("c", "1"), ("a", "3"))
    log.roll(now_ms=NOW_MS)
    result = run_compaction(log, disk)
    assert keys_and_offsets(log) == [("b", 1), ("c", 3), ("a", 4)]
    assert result is not None
    assert result.records_removed == 2
    assert (result.end_offset, log.end_offset, log.start_offset) == (5, 5, 0)


def test_the_active_segment_is_left_alone(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"))
    log.roll(now_ms=NOW_MS)
    put(log, ("a", "2"))
    put(log, ("a", "3"))
    run_compaction(log, disk)
    assert keys_and_offsets(log) == [("a", 0), ("a", 1), ("a", 2)]


def test_keys_of_the_dirty_part_also_clean_what_was_clean_before(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"), ("b", "1"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk)
    put(log, ("a", "2"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk, cleaner_offset=2)
    assert keys_and_offsets(log) == [("b", 1), ("a", 2)]


def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"), ("b", "1"), codec=Codec.ZSTD)
    put(log, ("c", "1"))
    put(log, ("c", "2"))
    log.roll(now_ms=NOW_MS)
    before = read_all(log)
    run_compaction(log, disk)
    data = log.read(0, max_bytes=1, upto_offset=4)
    assert data == before[0]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_rewritten_batch_keeps_offsets_codec_timestamps_and_producer(
    disk: MemoryDisk, log: Log, codec: Codec
) -> None:
    put(log, ("a", "1"), ("b", "1"), ("a", "2"), codec=codec, producer_id=7, timestamp=NOW_MS - 5)
    log.roll(now_ms=NOW_MS)
    before = next(log.headers(0))
    run_compaction(log, disk)
    after = next(log.headers(0))
    assert after.codec is codec
    assert after.record_count == 2
    for field in ("base_offset", "last_offset_delta", "leader_epoch", "producer_id", "producer_epoch"):
        assert getattr(after, field) == getattr(before, field)
    assert (after.base_sequence, after.max_timestamp) == (before.base_sequence, before.max_timestamp)
    assert [record.timestamp for record in records_of(log)] == [NOW_MS - 5, NOW_MS - 5]


def test_log_append_time_survives(disk: MemoryDisk, log: Log) -> None:
    data = batch(0, 2, timestamp=NOW_MS - 1000, keys=[b"a", b"a"], values=[b"1", b"2"])
    append(log, restamp(data, max_timestamp=NOW_MS))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk)
    header = next(log.headers(0))
    assert header.log_append_time
    assert header.max_timestamp == NOW_MS
    assert [record.timestamp for record in records_of(log)] == [NOW_MS]


def test_a_tombstone_stays_until_its_horizon_and_then_goes(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk)
    assert keys_and_offsets(log) == [("b", 1), ("a", 2)]
    assert [header.delete_horizon_ms for header in log.headers(0)] == [None, NOW_MS + DAY_MS]
    assert [record.timestamp for record in records_of(log)] == [NOW_MS, NOW_MS]

    put(log, ("c", "1"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk, cleaner_offset=3, now_ms=NOW_MS + DAY_MS - 1)
    assert ("a", 2) in keys_and_offsets(log)
    assert next(log.headers(2)).delete_horizon_ms == NOW_MS + DAY_MS, "the first horizon counts"

    put(log, ("d", "1"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk, cleaner_offset=4, now_ms=NOW_MS + DAY_MS)
    assert keys_and_offsets(log) == [("b", 1), ("c", 3), ("d", 4)]


def test_a_record_that_revives_a_deleted_key_removes_the_tombstone(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", None))
    put(log, ("a", "2"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk)
    assert keys_and_offsets(log) == [("a", 1)]


def test_records_without_a_key_go(disk: MemoryDisk, log: Log) -> None:
    append(log, batch(0, 2, keys=[None, b"a"]))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk)
    assert keys_and_offsets(log) == [("a", 1)]


def test_what_lies_below_the_start_goes(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"))
    put(log, ("b", "1"))
    put(log, ("c", "1"))
    log.roll(now_ms=NOW_MS)
    log.advance_start_offset(2)
    run_compaction(log, disk)
    assert [header.base_offset for header in log.headers(0)] == [2]
    assert (log.start_offset, log.end_offset) == (2, 3)


def test_a_start_that_moves_meanwhile_is_left_to_the_next_run(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"))
    put(log, ("b", "1"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk, work=InlineWork(before_each=lambda: log.advance_start_offset(2)))
    assert [header.base_offset for header in log.headers(0)] == [0, 1]


def test_an_empty_batch_remembers_a_producers_last_sequence(disk: MemoryDisk) -> None:
    producers = RememberedProducers()
    log = create_log(disk, COMPACTED, producers)
    put(log, ("a", "1"), producer_id=7)
    put(log, ("a", "2"), ("b", "1"), producer_id=7)
    put(log, ("a", "3"), ("b", "2"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk)
    first, second = log.headers(0)
    assert (first.producer_id, first.record_count, first.last_sequence) == (7, 0, 2)
    assert (first.base_offset, first.last_offset) == (1, 2)
    assert second.record_count == 2

    close_cleanly(log, disk)
    restored = RememberedProducers()
    log, _ = open_log(disk, COMPACTED, restored)
    assert [entry.last_sequence for entry in restored.entries()] == [2]

    put(log, ("c", "1"), producer_id=7)
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk, cleaner_offset=5)
    assert [header.record_count for header in log.headers(0)] == [2, 1], (
        "a newer sequence frees the empty batch"
    )


def test_small_neighbours_become_one_segment(disk: MemoryDisk, log: Log) -> None:
    for number in range(20):
        put(log, (f"key{number}", "v"))
        log.roll(now_ms=NOW_MS)
    before = log.size
    result = run_compaction(log, disk)
    assert len(log.segments) == 3
    assert log.size == before
    assert result is not None
    assert (result.segments_before, result.segments_after) == (20, 2)
    assert len(records_of(log)) == 20


def test_nothing_is_swapped_if_nothing_changes(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"))
    log.roll(now_ms=NOW_MS)
    before = log.segments[0]
    run_compaction(log, disk)
    assert log.segments[0] is before
    assert not [name for name in disk.list(PATH) if "cleaned" in name]


def test_a_full_map_ends_the_dirty_part_early_and_the_next_run_goes_on(disk: MemoryDisk, log: Log) -> None:
    for round_number in range(2):
        for number in range(10):
            put(log, (f"key{number}", f"v{round_number}"))
    log.roll(now_ms=NOW_MS)
    result = run_compaction(log, disk, map_bytes_max=1000)
    assert result is not None
    assert 0 < result.end_offset < 10
    table = table_of(log)
    runs = 1
    while result.end_offset < log.end_offset:
        result = run_compaction(log, disk, cleaner_offset=result.end_offset, map_bytes_max=1000)
        assert result is not None
        assert table_of(log) == table
        runs += 1
    assert runs > 2
    assert len(records_of(log)) == 10


def test_a_long_run_gives_the_loop_back_every_few_records(disk: MemoryDisk) -> None:
    log = create_log(disk, LogConfig(compact=True))
    append(log, batch(0, 5000, keys=[b"%d" % number for number in range(5000)]))
    log.roll(now_ms=NOW_MS)
    loop = TickingLoop()
    run_compaction(log, disk, loop=loop, map_bytes_max=1 << 30)
    assert loop.sleeps >= 5


def test_readers_of_the_old_segments_can_finish(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll(now_ms=NOW_MS)
    old = log.segments[0]
    run_compaction(log, disk)
    assert old.read_at(0, end=old.size, max_bytes=1, whole_first_batch=True, cached_only=False)
    assert log.due_deletions(NOW_MS) == []
    for deletion in log.due_deletions(NOW_MS + COMPACTED.file_delete_delay_ms):
        deletion.run(disk)
    assert not [name for name in disk.list(PATH) if name.endswith(".deleted")]


def test_a_log_that_is_cut_meanwhile_is_left_as_it_is(disk: MemoryDisk, log: Log) -> None:
    for number in range(6):
        put(log, ("a", str(number)))
    log.roll(now_ms=NOW_MS)
    calls = 0

    def cut() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            log.truncate_to(3)

    assert run_compaction(log, disk, work=InlineWork(cut)) is None
    assert [record.offset for record in records_of(log)] == [0, 1, 2]
    assert not [name for name in disk.list(PATH) if name.endswith((".cleaned", ".swap"))]


def test_segments_that_retention_takes_meanwhile_do_not_come_back(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"), ("a", "2"))
    log.roll(now_ms=NOW_MS)
    put(log, ("b", "1"))
    log.roll(now_ms=NOW_MS)

    def delete() -> None:
        if log.start_offset == 0:
            log.advance_start_offset(2)
            delete_old_segments(log, NOW_MS)

    run_compaction(log, disk, work=InlineWork(delete))
    assert [record.offset for record in records_of(log)] == [2]
    assert log.segments[0].base_offset == 2


def test_what_is_rewritten_is_safe_afterwards() -> None:
    machine = SimDisk(random.Random(3), page_bytes=64)
    disk = machine.mount()
    log = create_log(disk, COMPACTED)
    for number in range(6):
        put(log, ("a", str(number)), ("b", str(number)))
    log.roll(now_ms=NOW_MS)
    assert log.recovery_point == 0
    result = run_compaction(log, disk)
    assert result is not None
    assert log.recovery_point == result.end_offset == 12
    machine.crash_machine()
    log, _ = open_log(machine.mount(), COMPACTED, recovery_point=12)
    assert keys_and_offsets(log) == [("a", 10), ("b", 11)]


def test_a_batch_with_a_wrong_crc_stops_the_run_and_changes_nothing(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll(now_ms=NOW_MS)
    segment = log.segments[0]
    content = bytearray(segment.file.read(0, segment.size))
    content[-1] ^= 1
    segment.file.truncate(0)
    segment.file.append([content])
    with pytest.raises(CorruptionError, match="checksum is wrong"):
        run_compaction(log, disk)
    assert [header.base_offset for header in log.headers(0)] == [0, 1]
    assert not [name for name in disk.list(PATH) if name.endswith((".cleaned", ".swap"))]


# ---- when a log is worth it


def filled(disk: MemoryDisk, config: LogConfig, rolls: int = 4, step_ms: int = 0) -> Log:
    log = create_log(disk, config)
    for number in range(rolls):
        put(log, ("a", "x" * 100), timestamp=NOW_MS + number * step_ms)
        log.roll(now_ms=NOW_MS)
    return log


def test_a_log_is_cleanable_when_enough_of_it_is_dirty(disk: MemoryDisk) -> None:
    log = filled(disk, COMPACTED)
    everything = cleanable(log, cleaner_offset=0, upto_offset=4, now_ms=NOW_MS)
    assert everything is not None
    assert (everything.first_offset, everything.end_offset, everything.dirty_ratio) == (0, 4, 1.0)
    half = cleanable(log, cleaner_offset=2, upto_offset=4, now_ms=NOW_MS)
    assert half is not None
    assert half.dirty_ratio == 0.5
    assert cleanable(log, cleaner_offset=3, upto_offset=4, now_ms=NOW_MS) is None
    assert cleanable(log, cleaner_offset=4, upto_offset=4, now_ms=NOW_MS) is None


def test_nothing_above_the_high_watermark_is_cleaned(disk: MemoryDisk) -> None:
    log = filled(disk, COMPACTED)
    dirty = cleanable(log, cleaner_offset=0, upto_offset=3, now_ms=NOW_MS)
    assert dirty is not None
    assert dirty.end_offset == 3


def test_what_is_too_young_is_not_cleaned(disk: MemoryDisk) -> None:
    config = LogConfig(compact=True, min_compaction_lag_ms=1000)
    log = filled(disk, config, step_ms=500)
    dirty = cleanable(log, cleaner_offset=0, upto_offset=4, now_ms=NOW_MS + 1500)
    assert dirty is not None
    assert dirty.end_offset == 2


def test_what_is_overdue_is_cleaned_however_little_it_is(disk: MemoryDisk) -> None:
    config = LogConfig(compact=True, max_compaction_lag_ms=1000)
    log = filled(disk, config)
    assert cleanable(log, cleaner_offset=3, upto_offset=4, now_ms=NOW_MS + 1000) is None
    dirty = cleanable(log, cleaner_offset=3, upto_offset=4, now_ms=NOW_MS + 1001)
    assert dirty is not None
    assert dirty.is_overdue


def test_a_log_that_is_not_compacted_is_never_cleanable(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(compact=False, segment_bytes=1000))
    assert cleanable(log, cleaner_offset=0, upto_offset=4, now_ms=NOW_MS) is None


def test_a_checkpoint_outside_of_the_log_means_all_of_it(disk: MemoryDisk) -> None:
    log = filled(disk, COMPACTED)
    dirty = cleanable(log, cleaner_offset=99, upto_offset=4, now_ms=NOW_MS)
    assert dirty is not None
    assert dirty.first_offset == 0


def test_compact_and_delete_does_both(disk: MemoryDisk) -> None:
    config = LogConfig(compact=True, delete=True, retention_ms=1000, segment_bytes=1000)
    log = filled(disk, config, step_ms=1000)
    assert delete_old_segments(log, NOW_MS + 2500) == 2
    run_compaction(log, disk, cleaner_offset=2)
    assert [record.offset for record in records_of(log)] == [3]


# ---- crashes


@pytest.mark.parametrize("is_machine", [False, True])
def test_a_log_that_was_compacted_once_has_gaps_that_are_no_damage_whatever_its_policy_is_now(
    is_machine: bool,
) -> None:
    crashes = 0
    for step in range(1000):
        machine = SimDisk(random.Random(step))
        disk = machine.mount()
        log = create_log(disk, LogConfig(compact=True, delete=False, segment_bytes=400))
        for number in range(3):  # each in its own segment, which a later one empties
            put(log, ("a", f"{number}" * 100), ("b", f"{number}" * 100))
        log.roll(now_ms=NOW_MS)
        sync(log, disk)
        machine.faults.strike_after(step, machine.crash_process)
        try:
            run_compaction(log, disk)
        except Revoked:
            crashes += 1
        is_over = machine.faults.strike_is_pending
        if is_machine:
            machine.crash_machine()
        log, report = open_log(machine.mount(), LogConfig(delete=True), recovery_point=0)
        assert report.damage == []
        assert table_of(log) == {b"a": b"2" * 100, b"b": b"2" * 100}
        if is_over:
            break
    assert crashes > 5


def test_the_mark_of_a_compacted_log_is_on_the_device_before_its_first_swap() -> None:
    heard: list[tuple[DiskOperation, str]] = []
    disk = SimDisk(
        random.Random(0), watcher=lambda operation, path, _: heard.append((operation, path))
    ).mount()
    log = create_log(disk, COMPACTED)
    put(log, ("a", "1"), ("a", "2"))
    log.roll(now_ms=NOW_MS)
    run_compaction(log, disk)
    marked = heard.index((DiskOperation.CREATE, f"{PATH}/{file_names.COMPACTED}"))
    swapped = next(index for index, (operation, path) in enumerate(heard) if path.endswith(file_names.SWAP))
    assert (DiskOperation.SYNC_DIR, PATH) in heard[marked:swapped]


def test_a_gap_in_a_log_that_was_never_compacted_is_damage(disk: MemoryDisk, log: Log) -> None:
    put(log, ("a", "1"))
    log.roll(now_ms=NOW_MS)
    put(log, ("a", "2"))
    log.roll(now_ms=NOW_MS)
    put(log, ("a", "3"))
    disk.remove(f"{PATH}/{file_names.file_name(1, file_names.LOG)}")
    _, report = open_log(disk, LogConfig(delete=True))
    assert [(damage.first_offset, damage.next_offset) for damage in report.damage] == [(1, 2)]


@pytest.mark.parametrize(("is_machine", "seed"), [(False, 0), *((True, seed) for seed in range(8))])
def test_a_crash_at_any_step_of_the_swap_leaves_the_same_table(is_machine: bool, seed: int) -> None:
    crashes = 0
    for step in range(1000):
        machine = SimDisk(random.Random(seed * 1000 + step), page_bytes=64)
        disk = machine.mount()
        log = create_log(disk, COMPACTED)
        for number in range(12):
            put(
                log,
                (f"k{number % 5}", f"v{number}"),
                (f"k{number % 3}", None if number % 4 else f"w{number}"),
            )
            if number % 3 == 2:
                log.roll(now_ms=NOW_MS)
        put(log, ("k1", "last"))
        sync(log, disk)
        recovery_point = log.recovery_point
        table = table_of(log)
        machine.faults.strike_after(step, machine.crash_process)
        try:
            run_compaction(log, disk)
            finished = True
            machine.faults.call_off_strike()
            for deletion in log.due_deletions(NOW_MS + COMPACTED.file_delete_delay_ms):
                deletion.run(disk)
        except Revoked:
            finished = False
            crashes += 1
        if is_machine:
            machine.crash_machine()
        disk = machine.mount()
        log, report = open_log(disk, COMPACTED, recovery_point=recovery_point)
        assert table_of(log) == table
        assert log.end_offset == recovery_point
        assert report.damage == []
        bases = [segment.base_offset for segment in log.segments]
        for segment, following in zip(log.segments, bases[1:], strict=False):
            assert all(header.last_offset < following for _, header in segment.headers())
        put(log, ("k2", "more"))
        run_compaction(log, disk)
        assert table_of(log) == {**table, b"k2": b"more"}
        if finished:
            break
    assert crashes > 15
    assert read_header(read_all(log)[-1]).base_offset == recovery_point
