"""Reads a broker's log directory, Penstock's or Apache Kafka's, without the broker. On the driver.

Nothing is locked or written, and everything is validated: a broker may run there. A partition's newest segment is the
*active* one, which may be written to; the others are *closed*. The batch headers give the log end offset, the aborted
transactions and the last stable offset; index files are not needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_holds, read_header
from penstock.records.control import read_marker
from penstock.records.errors import CorruptBatchError
from penstock.records.record import read_records
from penstock.storage import file_names
from penstock.storage.offset_checkpoints import START_OFFSETS, decode_offsets

_LENGTH_MIN: Final = HEADER_SIZE - 12
INTERNAL: Final = "__"  # the prefix of internal topics


class DamagedLogError(UserError):
    """A file of a log is corrupt."""

    def __init__(self, path: str | Path, position: int, problem: str) -> None:
        super().__init__(
            f"{path} is damaged at position {position}: {problem}. `penstock log describe {path}` shows more"
        )


class SegmentFile(NamedTuple):
    """One segment; its end offset is the next one's base offset, or the log end offset."""

    path: str
    base_offset: int
    end_offset: int


class AbortedRange(NamedTuple):
    """An aborted transaction of a producer, between these offsets."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass
class PartitionLog:
    """The segments of one partition, and the range that can be read."""

    partition: TopicPartition
    start_offset: int
    end_offset: int = 0
    stable_offset: int = 0  # the last stable offset: a transaction is open at it or behind it
    segments: list[SegmentFile] = field(default_factory=list)
    aborted: list[AbortedRange] = field(default_factory=list)


def find_partitions(root: Path) -> list[TopicPartition]:
    """The partitions in a log directory; UserError if it is not one."""
    try:
        folders = [each for each in root.iterdir() if each.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"path {root} is no directory") from None
    found = [_partition_of(each.name) for each in folders]
    partitions = sorted(each for each in found if each is not None)
    if not partitions:
        hint = f"; did you mean {root.parent}?" if _partition_of(root.name) is not None else ""
        raise UserError(
            f"path {root} is no log directory: it has no folders of partitions, like topic-0{hint}"
        )
    return partitions


def start_offsets(root: Path) -> dict[TopicPartition, int]:
    """The log start offsets, of logs that begin later than their first segment."""
    try:
        return decode_offsets((root / START_OFFSETS).read_bytes()) or {}
    except FileNotFoundError:
        return {}


def look_into(
    root: Path, partition: TopicPartition, start_offset: int, *, include_active: bool
) -> PartitionLog:
    """Read the batch headers of a partition's log."""
    folder = root / f"{partition.topic}-{partition.partition}"
    found = ((file_names.offset_in(each.name, file_names.LOG), each) for each in folder.iterdir())
    files = sorted((base, path) for base, path in found if base is not None)
    log = PartitionLog(partition, start_offset)
    if not files:
        return log
    log.start_offset = max(start_offset, files[0][0])
    ledger = _Ledger()
    for (base_offset, path), (following, _) in pairwise(files):
        for _, header in _closed(path, ledger):
            _check_offsets(path, header, base_offset, following)
        log.segments.append(SegmentFile(str(path), base_offset, following))
    base_offset, path = files[-1]
    log.end_offset = max(base_offset, log.start_offset)
    end = _walk_active(path, base_offset, ledger, check_all=include_active)
    if include_active:
        log.segments.append(SegmentFile(str(path), base_offset, end))
        log.end_offset = max(end, log.start_offset)
    log.aborted = ledger.aborted
    log.stable_offset = min([*ledger.open.values(), log.end_offset])
    return log


def first_at_or_after(log: PartitionLog, timestamp_ms: int, *, bytes_max: int) -> int | None:
    """The offset of the first record with this time or later, or None. Aborted records count, as in ListOffsets."""
    for segment in log.segments:
        with open_segment(segment.path) as file:
            for position, header in read_headers(file, segment.path):
                if header.next_offset <= log.start_offset or header.max_timestamp < timestamp_ms:
                    continue
                if header.base_offset >= segment.end_offset:
                    break
                for record in read_records(_read_batch(file, position, header), limit=bytes_max):
                    if record.timestamp >= timestamp_ms and record.offset >= log.start_offset:
                        return record.offset
    return None


def open_segment(path: str | Path) -> BinaryIO:
    """Open a segment's file, also after the broker has renamed it to delete it."""
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        return Path(f"{path}{file_names.DELETED}").open("rb")


def read_headers(file: BinaryIO, path: str | Path) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch of a closed segment."""
    size = file.seek(0, 2)
    position = 0
    while position < size:
        file.seek(position)
        raw = file.read(HEADER_SIZE)
        header = read_header(raw) if len(raw) == HEADER_SIZE else None
        if header is None or not makes_sense(header) or position + header.size > size:
            raise DamagedLogError(path, position, "no batch begins there")
        yield position, header
        position += header.size


def makes_sense(header: BatchHeader) -> bool:
    return header.magic == MAGIC and header.batch_length >= _LENGTH_MIN and header.last_offset_delta >= 0


class _Ledger:
    """Tracks open and aborted transactions, reading a log in order."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # by producer, the first offset
        self.aborted: list[AbortedRange] = []

    def note(self, header: BatchHeader, batch: bytes) -> None:
        """Add a transactional batch; a control batch is given with all its bytes."""
        if not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)
            return
        marker = read_marker(batch, header)
        if marker is None:
            return
        first = self.open.pop(header.producer_id, None)
        if first is not None and not marker.committed:
            self.aborted.append(AbortedRange(header.producer_id, first, header.base_offset))


def _closed(path: Path, ledger: _Ledger) -> Iterator[tuple[int, BatchHeader]]:
    with open_segment(path) as file:
        for position, header in read_headers(file, path):
            if header.is_transactional:
                batch = b""
                if header.is_control:
                    batch = _read_batch(file, position, header)
                    if not crc_holds(batch, 0, header):
                        raise DamagedLogError(
                            path, position, f"wrong CRC of the batch at offset {header.base_offset}"
                        )
                ledger.note(header, batch)
            yield position, header


def _check_offsets(path: Path, header: BatchHeader, base_offset: int, following: int) -> None:
    if header.base_offset < base_offset or header.next_offset > following:
        raise UserError(
            f"{path} holds a batch of the offsets {header.base_offset} to {header.last_offset}, which belong to "
            "another segment: it is damaged, or was copied while it changed"
        )


def _walk_active(path: Path, base_offset: int, ledger: _Ledger, *, check_all: bool) -> int:
    """The end of the valid batches of the active segment. Bytes behind it are being written, or left by a crash."""
    end = base_offset
    with open_segment(path) as file:
        try:
            for position, header in read_headers(file, path):
                if header.base_offset < end:
                    break
                batch = b""
                if check_all or header.is_control:
                    batch = _read_batch(file, position, header)
                    if not crc_holds(batch, 0, header):
                        break
                if header.is_transactional:
                    ledger.note(header, batch)
                end = header.next_offset
        except (DamagedLogError, CorruptBatchError):
            return end
    return end


def _read_batch(file: BinaryIO, position: int, header: BatchHeader) -> bytes:
    file.seek(position)
    return file.read(header.size)


def _partition_of(name: str) -> TopicPartition | None:
    topic, _, number = name.rpartition("-")
    if not topic or not (number.isascii() and number.isdecimal()):
        return None
    return TopicPartition(topic, int(number))
