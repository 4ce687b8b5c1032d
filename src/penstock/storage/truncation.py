"""Truncates a log: from an offset to its end, or fully.

The recovery point in the checkpoint has to be lowered *before* a log is truncated below it
(`DataDirectory.truncate` does both), or a start would take offsets that were truncated for synced ones that are lost.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING

from penstock.storage.damage_handling import with_repair
from penstock.storage.log_segments import LogSegments
from penstock.storage.producer_replay import replay_segment
from penstock.storage.segment import Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log


def end_after_truncation(log: "Log", offset: int) -> int:
    """The log end offset after `truncate_to(offset)`: the base offset of the batch that has `offset`. May block."""
    if offset >= log.end_offset:
        return log.end_offset
    damage = log.damage_at(offset)
    if damage is not None:
        return damage.first_offset
    header = next(log.headers(offset), None)
    return offset if header is None else min(offset, header.base_offset)


def truncate_to(log: "Log", offset: int) -> None:
    """Drop every batch that has `offset` or a later one. May block."""
    log.require_usable()
    if offset >= log.end_offset:
        return
    assert offset >= log.segments[0].base_offset, "below the first segment it is `truncate_fully`"
    try:
        _truncate(log, with_repair(log, lambda: end_after_truncation(log, offset)))
    except OSError as error:
        raise log.fail_with("truncation failed", error) from error
    finally:
        log.is_truncating = False


def truncate_fully(log: "Log", start_offset: int, *, now_ms: int) -> None:
    """Drop all batches and continue, empty, at `start_offset`. May block."""
    log.require_usable()
    log.is_truncating = True
    try:
        for segment in log.segments:
            _remove_segment(log, segment)
        # Even a full disk has space for an empty file where others have just been removed.
        log.view = LogSegments([Segment.create(log.disk, log.path, start_offset, now_ms=now_ms)])
        log.start_offset = start_offset
        _reset_end(log, start_offset)
        log.epochs.truncate_before(start_offset)
        log.snapshots.drop_before(start_offset)
        log.producers.restore(())
    except OSError as error:
        raise log.fail_with("truncation failed", error) from error
    finally:
        log.is_truncating = False


def _truncate(log: "Log", end_offset: int) -> None:
    segments = log.segments
    # A segment that would be empty is removed, unless it is the first.
    kept = max(bisect_left(log.view.base_offsets, end_offset), 1)
    last = segments[kept - 1]
    position = next((damage.position for damage in last.damage if damage.first_offset == end_offset), None)
    if position is None:
        position = with_repair(log, lambda: last.position_of(end_offset))
        assert position is not None
    log.is_truncating = True
    log.view = LogSegments(segments[:kept])
    for segment in segments[kept:]:
        _remove_segment(log, segment)
    last.truncate_to(position, end_offset, log.config)
    log.unsynced_files.drop_segment(last)
    _reset_end(log, end_offset)
    _restore_producers(log)


def _remove_segment(log: "Log", segment: Segment) -> None:
    segment.deleted = True
    log.unsynced_files.drop_segment(segment)
    segment.remove()


def _reset_end(log: "Log", end_offset: int) -> None:
    log.truncations += 1  # a sync in progress does not cover what is written from now on
    for segment in log.segments:
        segment.damage = tuple(damage for damage in segment.damage if damage.first_offset < end_offset)
    log.size = log.view.size
    log.end_offset = end_offset
    log.start_offset = min(log.start_offset, end_offset)
    log.recovery_point = min(log.recovery_point, end_offset)
    log.epochs.truncate_from(end_offset)
    log.snapshots.drop_behind(end_offset)
    log.unsynced_files.note_names_changed()


def _restore_producers(log: "Log") -> None:
    snapshot_offset = log.snapshots.restore(log.producers, upto_offset=log.end_offset)
    for segment in log.view.starting_at(snapshot_offset):
        replay_segment(segment, log.producers, from_offset=snapshot_offset)
    log.view = LogSegments(log.segments)  # other segments may have aborted transactions now
