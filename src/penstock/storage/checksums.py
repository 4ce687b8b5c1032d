"""Which parts of a segment's file were held against their checksums in this life of the broker, and the check itself.

What a broker has written itself it has seen; what lay there when it started may have decayed since, and so may what it
has to read from the device again. Checking costs as much as reading, so it is done where somebody waits for the device
anyway, or the first time that something is read: off the loop.
"""

from penstock.base.buffers import Buffer
from penstock.records.batch import crc_holds, headers
from penstock.records.errors import CorruptBatchError
from penstock.storage.errors import DamagedBatchError

Ranges = tuple[tuple[int, int], ...]

_RANGES_MAX = 1000  # readers that hop about leave that many; what is left of one then is checked again


def overlap(ranges: Ranges, start: int, end: int) -> bool:
    """Whether any of the ranges has something between `start` and `end`."""
    return any(first < end and start < last for first, last in ranges)


def without(ranges: Ranges, start: int, end: int) -> Ranges:
    """What is left of ranges when one is taken out."""
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
    """Where the last whole batch in `data`, which lies at `position` of a file, ends.

    DamagedBatchError where one is not what was written. The CRC does not cover its base offset, but offsets grow.
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
