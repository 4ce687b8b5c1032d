"""Reads batches from a list of segments, for `Log.read`. Runs on the event loop and in other threads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.base.buffers import Buffer
from penstock.storage.segment import Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log


def read_batches(
    log: "Log",
    segments: Sequence[Segment],
    offset: int,
    *,
    max_bytes: int,
    upto_offset: int,
    whole_first_batch: bool,
    cached_only: bool,
) -> Buffer | None:
    """The batches from `offset` on, of the first of `segments` that has any. `segments` reach to the log's end."""
    for index, segment in enumerate(segments):
        if offset >= upto_offset or segment.base_offset >= upto_offset:
            return b""
        size = segment.size  # read before the end offset, which moves first
        end_offset = segments[index + 1].base_offset if index + 1 < len(segments) else log.end_offset
        position = segment.position_of(offset, cached_only=cached_only)
        if position is None:
            return None
        if position >= size:  # compaction left nothing from the offset to the end of the segment
            continue
        end = size
        damage = segment.damage_behind(position) if segment.damage else None
        if damage is not None:
            end, end_offset = damage.position, damage.first_offset
        if upto_offset < end_offset:
            limit = _limit(segment, position + max(max_bytes, 1), upto_offset, cached_only=cached_only)
            if limit is None:
                return None
            end = min(end, limit)
        if end <= position:
            return b""
        return segment.read_at(
            position,
            end=end,
            max_bytes=max_bytes,
            whole_first_batch=whole_first_batch,
            cached_only=cached_only,
        )
    return b""


def _limit(segment: Segment, wanted: int, upto_offset: int, *, cached_only: bool) -> int | None:
    """A position at or before the batch of `upto_offset`, exact if it matters for a read up to `wanted`."""
    known = segment.position_before(upto_offset, cached_only=cached_only)
    if known is None or known >= wanted:
        return known
    return segment.position_of(upto_offset, cached_only=cached_only)
