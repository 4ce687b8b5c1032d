"""Scans of a whole segment, checksums included: to rebuild its indexes, and to find the extent of damage.

Used after a reader has met damage. All of it may block, and may run in another thread.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from penstock.records.batch import BatchHeader
from penstock.storage.batch_scan import RELATIVE_OFFSET_MAX, Expected, Invalid, Valid, headers, scan
from penstock.storage.damage import Damage
from penstock.storage.errors import DamagedBatchError
from penstock.storage.segment import Segment
from penstock.storage.time_index import NO_TIMESTAMP, TimeEntry


def checked_batches(segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch outside of known damage, its CRC checked. Ends with DamagedBatchError at new damage."""
    start, next_offset = 0, segment.base_offset
    for end, damage in [*((each.position, each) for each in segment.damage), (segment.size, None)]:
        expected = Expected(next_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1, leader_epoch=-1)
        for found in scan(segment.file, start, end=end, expected=expected):
            if isinstance(found, Invalid):
                raise DamagedBatchError(segment.file.path, found.position, "there is no valid batch")
            yield found.position, found.header
        if damage is not None:
            start, next_offset = damage.end, damage.next_offset


def rebuild_index(segment: Segment, *, interval_bytes: int) -> None:
    """Rebuild both indexes from the batches, in memory.

    Every batch is checked, since its file may be damaged, too (DamagedBatchError).
    """
    rebuilt = segment.empty_index()
    largest = TimeEntry(NO_TIMESTAMP, segment.base_offset)
    behind_damage = {damage.end for damage in segment.damage}
    since = 0
    for position, header in checked_batches(segment):
        if header.max_timestamp > largest.timestamp and header.record_count:
            largest = TimeEntry(header.max_timestamp, header.last_offset)
        if since > interval_bytes or (position and position in behind_damage):
            rebuilt.offsets.add(last_offset=header.last_offset, position=position)
            rebuilt.times.add(largest.timestamp, offset=largest.offset)
            since = 0
        since += header.size
    if not segment.is_growing:
        rebuilt.times.add(largest.timestamp, offset=largest.offset)
    segment.index.take_over(rebuilt)


class NewDamage(NamedTuple):
    """A new damaged range, and all damaged ranges of its segment."""

    found: Damage
    of_segment: tuple[Damage, ...]


def find_damage(segment: Segment, position: int, *, limit_offset: int) -> NewDamage | None:
    """The range of offsets and bytes that is damaged at `position`; None if the batch there is valid.

    Offsets from `limit_offset` on are not the segment's.
    """
    start, next_offset = 0, segment.base_offset
    for known in segment.damage:
        if known.position <= position < max(known.end, known.position + 1):
            return None
        if known.end <= position:
            start, next_offset = known.end, known.next_offset
    try:
        for _, header in headers(segment.file, start, end=position):
            next_offset = header.next_offset
    except DamagedBatchError as error:
        # The damage begins here; or a valid batch reaches over `position`.
        return find_damage(segment, error.position, limit_offset=limit_offset)
    limit_offset = min(limit_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
    expected = Expected(next_offset, limit_offset, leader_epoch=-1)
    # The batch's length may be wrong: search without it. If not all of what follows is valid then, it may be right.
    findings = list(scan(segment.file, position, end=segment.size, expected=expected, believes_lengths=False))
    if not findings or not isinstance(findings[0], Invalid):
        return None
    is_all = len(findings) > 1 and all(isinstance(found, Valid) for found in findings[1:])
    if not is_all:
        findings = list(islice(scan(segment.file, position, end=segment.size, expected=expected), 2))
    damaged = findings[0]
    assert isinstance(damaged, Invalid)
    behind = findings[1] if len(findings) > 1 else None
    until = behind.header.base_offset if isinstance(behind, Valid) else limit_offset
    damage = Damage(next_offset, max(until, next_offset), damaged.position, damaged.end, was_trusted=True)
    # If all that follows is valid, damage that was found there was an effect of this one.
    others = [known for known in segment.damage if known.position < position or not is_all]
    return NewDamage(damage, tuple(sorted((*others, damage), key=lambda each: each.position)))
