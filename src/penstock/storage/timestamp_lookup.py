"""Finds records by timestamp, for ListOffsets. All of it may block.

The time indexes lead to a batch; only that one is decompressed. A batch that cannot be read raises CorruptionError.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.records.batch import BatchHeader, crc_holds
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record, read_records
from penstock.storage.errors import CorruptionError, DamagedBatchError
from penstock.storage.segment import Segment
from penstock.storage.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from penstock.storage.log import Log


class FoundRecord(NamedTuple):
    """A record's offset and timestamp, with the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(log: "Log", timestamp: int) -> FoundRecord | None:
    """The first record of the log with at least this timestamp."""
    for segment in log.segments:
        if segment.largest_time().timestamp < timestamp:
            continue
        entry = segment.time_floor(timestamp - 1)
        # All records up to the entry's offset are older than `timestamp`.
        start = segment.base_offset if entry is None else entry.offset
        position = segment.position_of(max(start, log.start_offset))
        assert position is not None
        for header, record in _records(log, segment, position, timestamp):
            if record.timestamp >= timestamp and record.offset >= log.start_offset:
                return FoundRecord(record.timestamp, record.offset, header.leader_epoch)
    return None


def newest(log: "Log") -> FoundRecord | None:
    """The first record that has the largest timestamp of the log."""
    largest = max(_largest_timestamp(log, segment) for segment in log.segments)
    return None if largest == NO_TIMESTAMP else first_at_or_after(log, largest)


def _largest_timestamp(log: "Log", segment: Segment) -> int:
    """Of the segment's records at or behind the start of the log."""
    if segment.base_offset >= log.start_offset:
        return segment.largest_time().timestamp
    position = segment.position_of(log.start_offset)
    assert position is not None
    largest = NO_TIMESTAMP
    for at, header in segment.headers(position):
        if header.base_offset >= log.start_offset:
            largest = max(largest, header.max_timestamp if header.record_count else NO_TIMESTAMP)
        else:
            stamps = (
                record.timestamp
                for record in _open(log, _read(segment, at, header), header)
                if record.offset >= log.start_offset
            )
            largest = max(largest, max(stamps, default=NO_TIMESTAMP))
    return largest


def _records(
    log: "Log", segment: Segment, position: int, timestamp: int
) -> Iterator[tuple[BatchHeader, Record]]:
    """The records of the batches from `position` on that can hold the timestamp or a later one."""
    for at, header in segment.headers(position):
        batch = _read(segment, at, header)  # all of them: the timestamp in a header may be damaged, too
        if header.max_timestamp >= timestamp:
            for record in _open(log, batch, header):
                yield header, record


def _read(segment: Segment, position: int, header: BatchHeader) -> bytes:
    batch = segment.file.read(position, header.size)
    if not crc_holds(batch, 0, header):
        raise DamagedBatchError(segment.file.path, position, "its checksum is wrong")
    return batch


def _open(log: "Log", batch: bytes, header: BatchHeader) -> Iterator[Record]:
    try:
        yield from read_records(batch, limit=log.config.decompressed_size_max)
    except CorruptBatchError as error:
        raise CorruptionError(
            f"{log.path}: the batch at offset {header.base_offset} cannot be read: {error}"
        ) from error
