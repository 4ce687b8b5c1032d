"""Looking at all of a segment, every checksum included: for what an index has lost, and for what has decayed.

Readers come here when something is wrong already. All of it may block, and may run in another thread.
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
    """Every batch outside of known damage, its CRC checked. Ends with DamagedBatchError where that does not hold."""
    start, next_offset = 0, segment.base_offset
    for end, damage in [*((each.position, each) for each in segment.damage), (segment.size, None)]:
        expected = Expected(next_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1, leader_epoch=-1)
        for found in scan(segment.file, start, end=end, expected=expected):
            if isinstance(found, Invalid):
                raise DamagedBatchError(segment.file.path, found.position, "no valid batch stands there")
            yield found.position, found.header
        if damage is not None:
            start, next_offset = damage.end, damage.next_offset


def rebuild_index(segment: Segment, *, interval_bytes: int) -> None:
    """Make both indexes again from the batches, in memory.

    Every batch is checked: what damaged the one file may have damaged the other. DamagedBatchError: it has.
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
    """Damage that was not known, and all that a segment has with it."""

    found: Damage
    of_segment: tuple[Damage, ...]


def find_damage(segment: Segment, position: int, *, limit_offset: int) -> NewDamage | None:
    """Which offsets are lost where no valid batch stands at `position`, and which bytes; None if none are, and whoever
    said so was led astray. Offsets from `limit_offset` on are not the segment's.
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
        # Here it begins; or a batch that is sound lies across `position`.
        return find_damage(segment, error.position, limit_offset=limit_offset)
    limit_offset = min(limit_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
    expected = Expected(next_offset, limit_offset, leader_epoch=-1)
    # The length may be what is wrong. Where what follows by another one is not sound up to the end, it may be right.
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
    # Where all that follows is sound, whoever found damage there was led astray by this one.
    others = [known for known in segment.damage if known.position < position or not is_all]
    return NewDamage(damage, tuple(sorted((*others, damage), key=lambda each: each.position)))
