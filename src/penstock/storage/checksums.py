"""Checksum verification on read, and which parts of a segment's file have not been verified since the broker started.

Batches that this process has written are not verified while they are in the page cache; batches from before the start
and batches read from the device may have decayed. Verifying costs as much as reading, so it is done in a worker
thread: when the device is read anyway, or when something is read for the first time.
"""

from penstock.base.buffers import Buffer
from penstock.records.batch import crc_holds, headers
from penstock.records.errors import CorruptBatchError
from penstock.storage.errors import DamagedBatchError

Ranges = tuple[tuple[int, int], ...]

_RANGES_MAX = 1000  # random reads make many; beyond that, ranges are verified again


def overlap(ranges: Ranges, start: int, end: int) -> bool:
    """Whether any of the ranges overlaps `start` to `end`."""
    return any(first < end and start < last for first, last in ranges)


def without(ranges: Ranges, start: int, end: int) -> Ranges:
    """The ranges without `start` to `end`."""
    left: list[tuple[int, int]] = []
    for first, last in ranges:
        if last <= start or end <= first:
            left.append((first, last))
            continue
        if first < start:
            left.append((first, start))
        if end < last:
            left.append((end, last))
    return tuple(left) if len(left) <= _RANGES_MAX else ranges


def check_batches(data: Buffer, *, path: str, position: int) -> int:
    """Verify the batches in `data`, read at `position` of a file; returns where the last complete one ends.

    DamagedBatchError if one is damaged. The CRC does not cover the base offset, but offsets have to increase.
    """
    end = next_offset = 0
    try:
        for at, header in headers(data):
            if not crc_holds(data, at, header):
                raise DamagedBatchError(path, position + at, "its checksum is wrong")
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise DamagedBatchError(path, position + at, f"offset {header.base_offset} goes back")
            end, next_offset = at + header.size, header.next_offset
    except CorruptBatchError as error:
        raise DamagedBatchError(path, position + end, str(error)) from error
    return position + end
