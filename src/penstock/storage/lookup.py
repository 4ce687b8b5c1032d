"""Looking for records by timestamp, as ListOffsets needs it. All of it may block.

The time indexes lead to a batch; only that one is opened. A batch that cannot be opened raises
CorruptionError.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.records.batch import BatchHeader
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record, read_records
from penstock.storage.errors import CorruptionError
from penstock.storage.index import NO_TIMESTAMP
from penstock.storage.segment import Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log


class FoundRecord(NamedTuple):
    """A record's place, with the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(log: "Log", timestamp: int) -> FoundRecord | None:
    """The first record of the log with at least this timestamp."""
    for segment in log.segments:
        if segment.largest_time().timestamp < timestamp:
            continue
        entry = segment.index.time_floor(timestamp - 1)
        # Everything up to the entry's offset is older than `timestamp`.
        start = segment.base_offset if entry is None else entry.offset
        position = segment.position_of(max(start, log.start_offset))
        assert position is not None
        for header, record in _records(log, segment, position, timestamp):
            if record.timestamp >= timestamp and record.offset >= log.start_offset:
                return FoundRecord(record.timestamp, record.offset, header.leader_epoch)
    return None


def newest(log: "Log") -> FoundRecord | None:
    """The first record that has the largest timestamp of the log."""
    segments = [segment for segment in log.segments if segment.size]
    if not segments:
        return None
    times = [segment.largest_time() for segment in segments]
    largest = max(time.timestamp for time in times)
    if largest == NO_TIMESTAMP:
        return None
    return first_at_or_after(log, largest)


def _records(
    log: "Log", segment: Segment, position: int, timestamp: int
) -> Iterator[tuple[BatchHeader, Record]]:
    """The records of the batches from `position` on that can hold the timestamp or a later one."""
    for at, header in segment.headers(position):
        if header.max_timestamp < timestamp:
            continue
        batch = segment.file.read(at, header.size)
        try:
            for record in read_records(batch, limit=log.config.decompressed_size_max):
                yield header, record
        except CorruptBatchError as error:
            raise CorruptionError(
                f"{log.path}: the batch at offset {header.base_offset} cannot be opened: {error}"
            ) from error
