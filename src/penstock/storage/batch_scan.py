"""Walks over the batches in a segment's file: to find one, to read all headers, or to check every byte.

`find_batch` and `headers` check only that headers are plausible, and raise DamagedBatchError if one is not. `scan`
checks every CRC and tells which ranges of the file have valid batches and which have something else.
"""

import re
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, TypeAlias

from penstock.base.buffers import Buffer
from penstock.records.batch import HEADER_SIZE, BatchHeader, crc_holds, read_header
from penstock.storage.errors import DamagedBatchError
from penstock.world.disk import File

BATCH_OVERHEAD = 12  # base offset and length come before what the length counts
RELATIVE_OFFSET_MAX = (1 << 31) - 1

_MAGIC = 2
_BATCH_LENGTH_MIN = HEADER_SIZE - BATCH_OVERHEAD
_MAGIC_POSITION = 16
# Base offset, length, magic, last offset delta: the header fields needed to find a batch.
_SKIM = Struct(">qi4xb6xi")
SKIM_SIZE = _SKIM.size

_SKIM_BYTES = 4096 + HEADER_SIZE
_HEADERS_BYTES = 256 << 10
_LARGE_BATCH = 16 << 10
_SCAN_BYTES = 1 << 20

# Lost pages are at least this long; if one ends inside a base offset, the rest of it lies before the batch.
_LOST_PAGE_BYTES_MIN = 64
_ZEROS_BEFORE_MIN = _LOST_PAGE_BYTES_MIN - BATCH_OVERHEAD

# A magic byte, any CRC, and attributes of which the upper byte is not in use.
_POSSIBLE_MAGIC = re.compile(rb"(?=\x02.{4}\x00[\x00-\x7f])", re.DOTALL)


class Skimmed(NamedTuple):
    """The base offset and size at the beginning of a batch."""

    base_offset: int
    size: int


def skim(data: Buffer) -> Skimmed | None:
    """Read the first SKIM_SIZE bytes of a batch; None if no batch begins there."""
    if len(data) < SKIM_SIZE:
        return None
    base_offset, length, magic, last_delta = _SKIM.unpack_from(data)
    if magic != _MAGIC or length < _BATCH_LENGTH_MIN or last_delta < 0 or base_offset < 0:
        return None
    return Skimmed(base_offset, length + BATCH_OVERHEAD)


def find_batch(file: File, position: int, *, end: int, offset: int, cached_only: bool = False) -> int | None:
    """Where the first batch at or behind `position` begins whose last offset is not below `offset`; else `end`.

    None if `cached_only` and something would have to be read from the device.
    """
    while position < end:
        count = min(_SKIM_BYTES, end - position)
        chunk = file.read_cached(position, count) if cached_only else file.read(position, count)
        if chunk is None:
            return None
        start, available = position, len(chunk)
        while position - start + SKIM_SIZE <= available:
            base_offset, length, magic, last_delta = _SKIM.unpack_from(chunk, position - start)
            size = length + BATCH_OVERHEAD
            if magic != _MAGIC or length < _BATCH_LENGTH_MIN or last_delta < 0 or position + size > end:
                raise DamagedBatchError(file.path, position, "no batch begins there")
            if base_offset + last_delta >= offset:
                return position
            position += size
        if position == start:
            raise DamagedBatchError(file.path, position, "the file ends in the middle of a batch")
    return end


def headers(file: File, position: int, *, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch header from `position` to `end` with its position. CRCs are not checked."""
    chunk: Buffer = b""
    start = position
    read_bytes = _HEADERS_BYTES
    while position < end:
        if position - start + HEADER_SIZE > len(chunk):
            start, chunk = position, file.read(position, min(read_bytes, end - position))
            if len(chunk) < HEADER_SIZE:
                raise DamagedBatchError(file.path, position, "the file ends in the middle of a batch")
        header = read_header(chunk, position - start)
        if not _makes_sense(header) or position + header.size > end:
            raise DamagedBatchError(file.path, position, "no batch begins there")
        yield position, header
        position += header.size
        # Small batches come in one read by the hundred; of large ones only the headers are read.
        read_bytes = HEADER_SIZE if header.size > _LARGE_BATCH else _HEADERS_BYTES


class Valid(NamedTuple):
    """A batch with a plausible header and a correct CRC."""

    position: int
    header: BatchHeader


class Invalid(NamedTuple):
    """A range of the file without a valid batch."""

    position: int
    end: int


ScannedRange: TypeAlias = Valid | Invalid


class Expected(NamedTuple):
    """The bounds that a batch has to meet to follow the ones before it."""

    next_offset: int  # it begins there or further on
    limit_offset: int  # and ends below
    leader_epoch: (
        int  # epochs never decrease: a lower one is from before a truncation, brought back by a crash
    )

    def admits(self, header: BatchHeader) -> bool:
        return (
            _makes_sense(header)
            and header.base_offset >= self.next_offset
            and header.last_offset < self.limit_offset
            and (header.leader_epoch >= self.leader_epoch or header.leader_epoch < 0)
        )

    def after(self, header: BatchHeader) -> "Expected":
        """The bounds of the batch behind this one."""
        return Expected(header.next_offset, self.limit_offset, max(self.leader_epoch, header.leader_epoch))


def scan(
    file: File, position: int, *, end: int, expected: Expected, believes_lengths: bool = True
) -> Iterator[ScannedRange]:
    """The valid and invalid ranges of the file from `position` to `end`, without gaps and in order.

    An invalid range reaches to the next valid batch, or to `end`. Without `believes_lengths` that batch may be the
    content of a record: the caller checks whether what follows is valid.
    """
    reader = _ScanReader(file, end)
    while position < end:
        header = reader.valid_batch(position, expected)
        if header is None:
            resumed = _search(reader, position, expected, believes_lengths=believes_lengths)
            yield Invalid(position, resumed)
            position = resumed
            continue
        yield Valid(position, header)
        position += header.size
        expected = expected.after(header)


def _search(
    reader: "_ScanReader", position: int, expected: Expected, *, believes_lengths: bool = True
) -> int:
    """Where, behind the invalid bytes at `position`, the next valid batch begins; the end if there is none.

    If the header of the invalid batch is complete and follows the batch before it, its length is used: records may
    contain what looks like batches, so nothing is searched inside of it.
    """
    header = reader.header(position)
    if header is None:
        return reader.end
    start = position + 1
    if believes_lengths and _makes_sense(header) and header.base_offset == expected.next_offset:
        start = position + header.size
    while start + HEADER_SIZE <= reader.end:
        chunk = reader.file.read(start, _SCAN_BYTES)
        for match in _POSSIBLE_MAGIC.finditer(chunk, _MAGIC_POSITION):
            candidate = start + match.start() - _MAGIC_POSITION
            if reader.certain_batch(candidate, expected):
                return candidate
        if len(chunk) < _SCAN_BYTES:
            break
        start += len(chunk) - HEADER_SIZE  # a header may lie across two chunks
    return reader.end


class _ScanReader:
    """Reads batches from a file in large chunks."""

    def __init__(self, file: File, end: int) -> None:
        self.file = file
        self.end = end
        self._start = 0
        self._chunk = b""

    def header(self, position: int) -> BatchHeader | None:
        """The header at `position`, unchecked; None if the file ends in it."""
        if position + HEADER_SIZE > self.end:
            return None
        return read_header(self._holding(position, HEADER_SIZE), position - self._start)

    def valid_batch(self, position: int, expected: Expected) -> BatchHeader | None:
        """The header of the batch at `position` if the batch is valid and meets `expected`."""
        header = self.header(position)
        if header is None or not expected.admits(header) or position + header.size > self.end:
            return None
        chunk = self._holding(position, header.size)
        return header if crc_holds(chunk, position - self._start, header) else None

    def certain_batch(self, position: int, expected: Expected) -> bool:
        """Whether there is a valid batch behind invalid bytes, with its original base offset.

        The CRC does not cover the base offset. Zeros of a lost page may end exactly behind it; but then they began
        well before it. If the bytes before are all zero, the next batch has to confirm the offset.
        """
        header = self.valid_batch(position, expected)
        if header is None:
            return False
        before = self.file.read(max(position - _ZEROS_BEFORE_MIN, 0), min(position, _ZEROS_BEFORE_MIN))
        if before.strip(b"\0"):
            return True
        behind = position + header.size
        if behind >= self.end:
            return header.next_offset == expected.limit_offset
        successor = self.valid_batch(behind, expected.after(header))
        return successor is not None and successor.base_offset == header.next_offset

    def _holding(self, position: int, count: int) -> bytes:
        """The current chunk; another one is read if it does not contain the range."""
        if position < self._start or position + count > self._start + len(self._chunk):
            self._start = position
            self._chunk = self.file.read(position, min(max(count, _SCAN_BYTES), self.end - position))
        return self._chunk


def _makes_sense(header: BatchHeader) -> bool:
    return (
        header.magic == _MAGIC
        and header.batch_length >= _BATCH_LENGTH_MIN
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.record_count >= 0
    )
