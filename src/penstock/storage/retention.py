"""Retention: which of the oldest segments have expired by time, size or log start offset, and their deletion.

Only a run of the oldest segments goes, never one that has offsets above the high watermark. The active segment goes
last: only if all of it has expired and it is not empty, and the log rolls before it is deleted.

The order matters after a power cut: the log start offset that `advance_start` moves is written to its checkpoint
before `delete_segments_below` removes files. The device may undo any of these removals, and lose the newest segment
with them: without the checkpoint the log would end where it ended long ago.
"""

from typing import TYPE_CHECKING

from penstock.storage.errors import NoRoomError
from penstock.storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from penstock.storage.log import Log
    from penstock.storage.segment import Segment


def count_expired_segments(log: "Log", *, now_ms: int, high_watermark: int) -> int:
    """How many of the oldest segments have expired. May block when it reads a time index for the first time."""
    segments, config = log.segments, log.config
    ends = [segment.base_offset for segment in segments[1:]] + [log.end_offset]
    surplus_bytes = log.size - config.retention_bytes if config.retention_bytes >= 0 else 0
    oldest_ms = now_ms - config.retention_ms
    count = 0
    for segment, end_offset in zip(segments, ends, strict=True):
        is_active = segment is segments[-1]
        if end_offset > high_watermark or (is_active and not segment.size):
            break
        below_start = end_offset <= log.start_offset
        expired = False
        if config.delete and not below_start:
            if config.retention_ms >= 0:
                newest_ms = segment.largest_time().timestamp
                expired = NO_TIMESTAMP < newest_ms < oldest_ms
            # The active segment never goes for its size: that would delete what has just been written.
            expired |= config.retention_bytes >= 0 and surplus_bytes >= segment.size and not is_active
        if not (below_start or expired):
            break
        surplus_bytes -= segment.size
        count += 1
    return count


def advance_start(log: "Log", *, now_ms: int, high_watermark: int | None) -> int | None:
    """Move the log start offset past the expired segments; the offset to delete below, None if nothing expired.

    The log start offset moves before the segments go: a reader that finds no batch then also finds that its offset is
    below the log start offset.
    """
    count = log.expired(now_ms, high_watermark=high_watermark)
    if not count:
        return None
    if count == len(log.segments):
        try:
            log.roll(now_ms=now_ms)
        except NoRoomError:
            # The active segment stays until there is space for a new one; deleting the others makes some.
            count -= 1
            if not count:
                return None
    new_start = log.segments[count].base_offset
    log.advance_start_offset(new_start)
    return new_start


def remove_indexes_below(log: "Log", offset: int) -> None:
    """Remove the indexes of the segments that `delete_segments_below` is going to delete. May block.

    A start that finds these segments again rebuilds their indexes.
    """
    for segment in _segments_below(log, offset):
        segment.index.remove()


def delete_segments_below(log: "Log", offset: int, *, now_ms: int) -> int:
    """Take the segments that end at or before `offset` out of the log; returns how many."""
    outdated = _segments_below(log, offset)
    if not outdated:
        return 0
    try:
        log.replace_segments(outdated, [], now_ms=now_ms)
        log.snapshots.drop_before(log.segments[0].base_offset)
    except OSError as error:
        raise log.fail_with("cannot delete old segments", error) from error
    return len(outdated)


def _segments_below(log: "Log", offset: int) -> "list[Segment]":
    # A truncation since then may have lowered the log start offset.
    view = log.view
    return view.segments[: max(view.index_of(min(offset, log.start_offset)), 0)]
