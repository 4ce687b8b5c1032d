"""Retention by time and by size deletes old segments, and nothing above the high watermark."""

from random import Random

import pytest

from penstock.sim.disk import SimDisk
from penstock.storage.log import Log, LogConfig
from penstock.world.memory_disk import MemoryDisk
from tests.storage.helpers import (
    NOW_MS,
    PATH,
    append,
    batch,
    create_log,
    delete_old_segments,
    open_log,
    read_all,
)

DAY_MS = 86_400_000


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


def filled(disk: MemoryDisk, config: LogConfig, *, count: int = 5, step_ms: int = 1000) -> Log:
    """A log of `count` segments with one batch each; the last one is active."""
    log = create_log(disk, config)
    for number in range(count):
        append(log, batch(number, timestamp=NOW_MS + number * step_ms, size=100))
        if number < count - 1:
            log.roll(now_ms=NOW_MS)
    return log


def test_segments_go_when_their_newest_record_is_too_old(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=1000))
    assert delete_old_segments(log, NOW_MS + 3000) == 2
    assert (log.start_offset, log.end_offset) == (2, 5)
    assert delete_old_segments(log, NOW_MS + 3000) == 0
    assert len(read_all(log)) == 3


def test_the_active_segment_is_rolled_before_it_goes(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=1000))
    assert delete_old_segments(log, NOW_MS + DAY_MS) == 5
    assert (log.start_offset, log.end_offset, log.size) == (5, 5, 0)
    data = append(log, batch(5))
    assert read_all(log) == [data]
    assert log.segments[0].base_offset == 5


def test_an_empty_log_has_nothing_to_delete(disk: MemoryDisk) -> None:
    log = create_log(disk, LogConfig(retention_ms=0, retention_bytes=0))
    assert delete_old_segments(log, NOW_MS + DAY_MS) == 0
    assert len(log.segments) == 1


def test_segments_go_until_the_rest_fits(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=-1))
    size = log.size // 5
    log.config = LogConfig(retention_ms=-1, retention_bytes=3 * size)
    assert delete_old_segments(log, NOW_MS) == 2
    log.config = LogConfig(retention_ms=-1, retention_bytes=3 * size - 1)
    assert delete_old_segments(log, NOW_MS) == 0, "what would go below the limit stays"


def test_the_active_segment_never_goes_for_its_size(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=-1, retention_bytes=0))
    delete_old_segments(log, NOW_MS)
    assert (log.start_offset, log.end_offset) == (4, 5)
    assert len(read_all(log)) == 1


def test_nothing_above_the_high_watermark_goes(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=0))
    assert delete_old_segments(log, NOW_MS + DAY_MS, high_watermark=2) == 2
    assert log.start_offset == 2


def test_minus_one_keeps_everything(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=-1))
    assert delete_old_segments(log, NOW_MS + 10_000 * DAY_MS) == 0


def test_a_log_that_is_only_compacted_keeps_what_is_old(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=0, retention_bytes=0, compact=True, delete=False))
    assert delete_old_segments(log, NOW_MS + DAY_MS) == 0
    log.advance_start_offset(2)
    assert delete_old_segments(log, NOW_MS) == 2, "what lies below the start goes all the same"


def test_a_young_segment_protects_the_older_looking_ones_behind_it(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=1000), step_ms=-1000)
    assert delete_old_segments(log, NOW_MS + 500) == 0


def test_a_start_in_the_middle_of_a_segment_keeps_it(disk: MemoryDisk) -> None:
    log = create_log(disk, LogConfig(retention_ms=-1))
    append(log, batch(0, 10))
    log.roll(now_ms=NOW_MS)
    append(log, batch(10, 10))
    log.advance_start_offset(9)
    assert delete_old_segments(log, NOW_MS) == 0
    log.advance_start_offset(10)
    assert delete_old_segments(log, NOW_MS) == 1


def test_files_are_removed_after_the_delay(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=1000, file_delete_delay_ms=500))
    delete_old_segments(log, NOW_MS + 3000)
    assert len([name for name in disk.list(PATH) if name.endswith(".log.deleted")]) == 2
    assert log.due_deletions(NOW_MS + 3499) == []
    for deletion in log.due_deletions(NOW_MS + 3500):
        deletion.run(disk)
    assert log.due_deletions(NOW_MS + 9999) == []
    assert not [name for name in disk.list(PATH) if name.endswith(".deleted")]
    assert sorted(name for name in disk.list(PATH) if name.endswith(".snapshot")) == [
        f"{offset:020d}.snapshot" for offset in (2, 3, 4)
    ]


def test_expired_says_what_would_go_without_doing_it(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=1000))
    assert log.expired(NOW_MS + 3000) == 2
    assert log.start_offset == 0


# ---- crashes


def test_retention_that_a_power_cut_undoes_in_part_gives_no_offset_out_twice() -> None:
    for seed in range(200):
        machine = SimDisk(Random(seed))
        disk = machine.mount()
        log = create_log(disk, LogConfig(retention_ms=1000))
        for number in range(4):
            append(log, batch(number, size=100))
            log.roll(now_ms=NOW_MS)
        new_start = log.expire(NOW_MS + DAY_MS)
        assert new_start == log.end_offset == 4
        written_down = log.start_offset
        log.delete_segments_below(new_start, now_ms=NOW_MS + DAY_MS)
        machine.crash_machine()
        again = machine.mount()
        if not again.exists(PATH):
            continue  # nothing of the log was ever synced
        log, _ = open_log(again, log_start_offset=written_down)
        assert (log.start_offset, log.end_offset) == (4, 4)


def test_only_what_lies_below_the_offset_is_deleted_whatever_happened_meanwhile(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=1000))
    new_start = log.expire(NOW_MS + 3000)
    assert new_start == 2
    assert len(log.segments) == 5, "nothing goes before the start is written down"
    log.advance_start_offset(4)
    assert log.delete_segments_below(new_start, now_ms=NOW_MS) == 2
    assert [segment.base_offset for segment in log.segments] == [2, 3, 4]
    assert log.delete_segments_below(new_start, now_ms=NOW_MS) == 0


def test_a_cut_between_moving_the_start_and_deleting_keeps_what_the_log_needs(disk: MemoryDisk) -> None:
    log = filled(disk, LogConfig(retention_ms=1000))
    new_start = log.expire(NOW_MS + 3000)
    assert new_start == 2
    log.truncate_to(1)
    assert log.delete_segments_below(new_start, now_ms=NOW_MS) == 0
    assert (log.start_offset, log.end_offset) == (1, 1)
