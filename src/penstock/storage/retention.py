"""Which segments have outlived their time, their room, or the log's start. Decides; the log deletes.

Only a whole run of the oldest segments goes, never one that holds something above the high watermark. The
active one goes last: it counts if all of it has expired and it holds something, and the log rolls before it
deletes it.
"""

from typing import TYPE_CHECKING

from penstock.storage.index import NO_TIMESTAMP

if TYPE_CHECKING:
    from penstock.storage.log import Log


def expired_count(log: "Log", *, now_ms: int, high_watermark: int) -> int:
    """How many of the oldest segments may go. May block when it asks a time index for the first time."""
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
        outlived = False
        if config.delete and not below_start:
            if config.retention_ms >= 0:
                newest_ms = segment.largest_time().timestamp
                outlived = NO_TIMESTAMP < newest_ms < oldest_ms
            # The active one alone never goes for its size: it would take what has just been written.
            outlived |= config.retention_bytes >= 0 and surplus_bytes >= segment.size and not is_active
        if not (below_start or outlived):
            break
        surplus_bytes -= segment.size
        count += 1
    return count
