"""Finds the batch of an offset in a segment's file, with the offset index.

The index has no checksum: each entry that is used is compared with the batch it points to. DamagedIndexError means
that they contradict each other; the index can be rebuilt from the batches.
"""

from typing import TYPE_CHECKING

from penstock.storage.batch_scan import SKIM_SIZE, find_batch, skim
from penstock.storage.errors import CorruptionError, DamagedBatchError

if TYPE_CHECKING:
    from penstock.storage.segment import Segment


def find_position(segment: "Segment", offset: int, *, cached_only: bool) -> int | None:
    """Where the first batch begins whose last offset is not below `offset`; the segment's size if there is none.

    None if `cached_only` and something would have to be read from the device.
    """
    size = segment.size
    offsets = segment.index.offsets
    found = offsets.floor(offset, cached_only=cached_only)
    if found is None:
        return None
    position, following = found
    if position and position >= size:
        position = _start_of_lookup_beyond(segment, position)
    if following is not None and following < size:
        begins_at = _first_offset_at(segment, following, cached_only=cached_only)
        if begins_at is None:
            return None
        if begins_at <= offset:
            position = following
    try:
        found_at = _walk_to(segment, offset, position, cached_only=cached_only)
    except DamagedBatchError as error:
        if not position:
            raise
        raise suspect_index(segment, error) from error
    if found_at == position and begins_behind(segment, position, offset, cached_only=cached_only):
        raise offsets.damaged(f"offset {offset} is not behind position {position}")
    return found_at


def position_before(segment: "Segment", offset: int, *, cached_only: bool) -> int | None:
    """A position at or before the batch of `offset`, as near as the index alone knows."""
    offsets = segment.index.offsets
    found = offsets.floor(offset, cached_only=cached_only)
    if found is None:
        return None
    position = found[0]
    if position and position >= segment.size:
        position = _start_of_lookup_beyond(segment, position)
    if not position:
        return 0
    begins_at = _first_offset_at(segment, position, cached_only=cached_only)
    if begins_at is not None and begins_at > offset:
        raise offsets.damaged(f"offset {offset} is not behind position {position}")
    return None if begins_at is None else position


def begins_behind(segment: "Segment", position: int, offset: int, *, cached_only: bool) -> bool:
    """Whether the batch of an index entry for `offset` or an earlier one begins after `offset`: a contradiction."""
    begins_at = _first_offset_at(segment, position, cached_only=cached_only) if position else None
    return begins_at is not None and begins_at > offset


def suspect_index(segment: "Segment", error: DamagedBatchError) -> CorruptionError:
    """What to raise if no batch is found where the index points to.

    The index is blamed first. Once it was rebuilt, and the batch is still not found, it is the batch.
    """
    return error if segment.index.is_rebuilt else segment.index.offsets.damaged(str(error))


def _start_of_lookup_beyond(segment: "Segment", position: int) -> int:
    """Where to begin if the index points behind the segment's end."""
    if segment.is_growing:
        return 0  # the entry may be of a batch that was appended after the size was read
    raise segment.index.offsets.damaged(f"position {position} is behind the end of its segment")


def _first_offset_at(segment: "Segment", position: int, *, cached_only: bool) -> int | None:
    """The base offset of the batch at a position that the index names; None if that has to be read from the device."""
    file = segment.file
    data = file.read_cached(position, SKIM_SIZE) if cached_only else file.read(position, SKIM_SIZE)
    if data is None:
        return None
    found = skim(data)
    if found is None or position + found.size > segment.size:
        raise suspect_index(segment, DamagedBatchError(file.path, position, "no batch begins there"))
    return found.base_offset


def _walk_to(segment: "Segment", offset: int, position: int, *, cached_only: bool) -> int | None:
    """Go from batch to batch, and over damage that lies wholly before `offset`."""
    file = segment.file
    for damage in segment.damage:
        if damage.position < position:
            continue
        found = find_batch(file, position, end=damage.position, offset=offset, cached_only=cached_only)
        if found is None or found < damage.position:
            return found
        if offset < damage.next_offset:
            raise CorruptionError(f"{file.path} is damaged at position {found}, where {offset} should be")
        position = damage.end
    return find_batch(file, position, end=segment.size, offset=offset, cached_only=cached_only)
