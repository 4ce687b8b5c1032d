"""Reads and checks the files of a partition's directory, without a broker.

Segments (.log) are read batch by batch: a corrupt batch is reported and skipped if its length is plausible; if not,
the next batch cannot be found, and reading ends. Indexes are checked for order and, if the segment is there, against
its batches.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple, TypeAlias

from penstock.base.errors import UserError
from penstock.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_holds, read_header
from penstock.records.errors import CorruptBatchError
from penstock.records.producer import ProducerEntry
from penstock.records.record import Record, read_records
from penstock.storage import file_names
from penstock.storage.producer_snapshots import decode_snapshot

DESCRIBABLE = (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX, file_names.SNAPSHOT)

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_RECORDS_BYTES_MAX = 1 << 30
_READ_BUFFER_BYTES = 1 << 20


class FoundBatch(NamedTuple):
    """A batch in a segment; `problem` is None if it is valid."""

    position: int
    header: BatchHeader
    data: bytes
    problem: str | None


class Trouble(NamedTuple):
    """A position in a file with invalid content."""

    position: int
    problem: str


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeIndexRow(NamedTuple):
    timestamp: int
    offset: int


Finding: TypeAlias = FoundBatch | Trouble


def files_to_describe(path: Path) -> list[Path]:
    """The file itself, or a directory's files that can be described, in the order of the log."""
    if not path.is_dir():
        if not path.exists():
            raise UserError(f"{path} does not exist")
        if kind_of(path) is None:
            known = ", ".join(DESCRIBABLE)
            raise UserError(f"{path} is none of a log's files, which end in {known}")
        return [path]
    files = sorted(each for each in path.iterdir() if kind_of(each) is not None)
    if not files:
        raise UserError(f"there are no segments in {path}; a partition's directory is named like topic-0")
    return files


def kind_of(path: Path) -> str | None:
    """The suffix that tells a file's kind; None for files that are not described here."""
    for kind in DESCRIBABLE:
        if file_names.offset_in(path.name, kind) is not None:
            return kind
    return None


def base_offset_of(path: Path) -> int:
    kind = kind_of(path)
    offset = None if kind is None else file_names.offset_in(path.name, kind)
    assert offset is not None, "not a file of a log"
    return offset


def walk_segment(path: Path) -> Iterator[Finding]:
    """Every batch of a segment, and invalid bytes between them."""
    end = os.stat(path).st_size
    next_offset = base_offset_of(path)
    with path.open("rb", buffering=_READ_BUFFER_BYTES) as file:
        position = 0
        while position < end:
            found = _read_batch(file, position, end=end, next_offset=next_offset)
            yield found
            if isinstance(found, Trouble):
                return
            position += found.header.size
            next_offset = max(next_offset, found.header.next_offset)


def records_of(batch: FoundBatch) -> Iterator[Record]:
    """The records of a batch; CorruptBatchError if they contradict the header."""
    return read_records(batch.data, limit=_RECORDS_BYTES_MAX)


def read_offset_index(path: Path) -> tuple[list[OffsetEntry], list[Trouble]]:
    """The entries, with absolute offsets, and what is wrong with them."""
    base_offset = base_offset_of(path)
    content, troubles = _entries(path, _OFFSET_ENTRY)
    entries = [OffsetEntry(base_offset + delta, place) for delta, place in _OFFSET_ENTRY.iter_unpack(content)]
    troubles += _order_troubles(entries, _OFFSET_ENTRY.size)
    segment = path.with_suffix(file_names.LOG)
    if segment.exists() and not troubles:
        troubles += _offset_troubles(entries, segment)
    return entries, troubles


def read_time_index(path: Path) -> tuple[list[TimeIndexRow], list[Trouble]]:
    """The entries, with absolute offsets, and what is wrong with them."""
    base_offset = base_offset_of(path)
    content, troubles = _entries(path, _TIME_ENTRY)
    entries = [TimeIndexRow(time, base_offset + delta) for time, delta in _TIME_ENTRY.iter_unpack(content)]
    return entries, troubles + _order_troubles(entries, _TIME_ENTRY.size)


def read_snapshot(path: Path) -> tuple[list[ProducerEntry], list[Trouble]]:
    entries = decode_snapshot(path.read_bytes())
    if entries is None:
        return [], [Trouble(0, "the snapshot is not whole: its version, length or CRC is wrong")]
    return entries, []


def _read_batch(file: BinaryIO, position: int, *, end: int, next_offset: int) -> Finding:
    file.seek(position)
    start = file.read(HEADER_SIZE)
    if len(start) < HEADER_SIZE:
        return Trouble(position, f"{end - position} bytes are left, less than a batch's header: a torn write")
    header = read_header(start)
    if not any(start):
        return Trouble(position, f"{end - position} bytes are left that begin with zeros: never written to")
    if header.magic != MAGIC or header.size < HEADER_SIZE:
        return Trouble(
            position,
            f"no batch begins here (magic {header.magic}, length {header.batch_length}); "
            f"the {end - position} bytes from here on cannot be read",
        )
    if position + header.size > end:
        missing = position + header.size - end
        return Trouble(
            position, f"the batch at offset {header.base_offset} lacks {missing} bytes: a torn write"
        )
    data = start + file.read(header.size - HEADER_SIZE)
    return FoundBatch(position, header, data, _problem(header, data, next_offset))


def _problem(header: BatchHeader, data: bytes, next_offset: int) -> str | None:
    if not crc_holds(data, 0, header):
        return "wrong CRC: its bytes have changed since it was written"
    if header.base_offset < next_offset:
        return f"offset {header.base_offset} comes after {next_offset - 1}: offsets must rise"
    try:
        _ = header.codec
    except CorruptBatchError as error:
        return str(error)
    return None


def _entries(path: Path, entry: Struct) -> tuple[bytes, list[Trouble]]:
    """The complete entries of an index, without the zeros that Kafka preallocates behind them."""
    content = path.read_bytes()
    troubles = []
    surplus = len(content) % entry.size
    if surplus:
        troubles.append(Trouble(len(content) - surplus, f"{surplus} bytes are left, less than an entry"))
        content = content[:-surplus]
    used = len(content.rstrip(b"\0"))
    return content[: -(-used // entry.size) * entry.size], troubles


def _order_troubles(entries: Sequence[tuple[int, int]], entry_size: int) -> list[Trouble]:
    for number in range(1, len(entries)):
        before, entry = entries[number - 1], entries[number]
        if entry[0] <= before[0] or entry[1] <= before[1]:
            return [
                Trouble(
                    number * entry_size, f"entry {tuple(entry)} comes after {tuple(before)}: both must rise"
                )
            ]
    return []


def _offset_troubles(entries: Sequence[OffsetEntry], segment: Path) -> list[Trouble]:
    """Each entry must have the last offset of a batch and the position of that batch."""
    end = os.stat(segment).st_size
    with segment.open("rb") as file:
        for number, (offset, position) in enumerate(entries):
            file.seek(position)
            start = file.read(HEADER_SIZE)
            whole = position < end and len(start) == HEADER_SIZE
            if not whole or not _holds(read_header(start), offset):
                return [
                    Trouble(
                        number * _OFFSET_ENTRY.size,
                        f"no batch with offset {offset} begins at position {position} of {segment.name}",
                    )
                ]
    return []


def _holds(header: BatchHeader, offset: int) -> bool:
    return header.magic == MAGIC and header.base_offset <= offset <= header.last_offset
