"""`.option("path", ...)`: batch reads straight from a log directory or its copy, a task per segment, no broker.

Reads closed segments; with `penstock.include.active.segment` also the newest one of each partition, up to its last
valid batch, for copies and for brokers that are stopped. The driver reads the headers of all batches first
(`log_directory`); tasks check every CRC. The directory has to exist under the same path wherever tasks run.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.base.settings import Settings
from penstock.client.offsets import EARLIEST, AtOffset
from penstock.records.batch import HEADER_SIZE, BatchHeader, crc_holds, read_header
from penstock.records.errors import CorruptBatchError
from penstock.spark.columns import Gathering
from penstock.spark.fetching import report_loss
from penstock.spark.log_directory import (
    INTERNAL,
    AbortedRange,
    DamagedLogError,
    PartitionLog,
    SegmentFile,
    find_partitions,
    first_at_or_after,
    look_into,
    makes_sense,
    open_segment,
    start_offsets,
)
from penstock.spark.options import (
    DECOMPRESSED_BYTES_MAX,
    FAIL_ON_DATA_LOSS,
    FETCH_BYTES,
    INCLUDE_ACTIVE_SEGMENT,
    PATH,
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
)
from penstock.spark.planning import Lost, OffsetRange, below_start
from penstock.spark.positions import AT_EARLIEST, AtEnd, Place, ending_places, starting_places
from penstock.spark.pushdown import Narrowing, TakesFilters, takes_filters
from penstock.spark.subscription import TopicSelection


class SegmentRange(NamedTuple):
    """A segment and the offsets that one task reads of it."""

    segment: SegmentFile
    wanted: OffsetRange
    aborted: tuple[AbortedRange, ...]


class SegmentPartition(InputPartition):
    """One task: a range of offsets of one segment."""

    def __init__(self, part: SegmentRange) -> None:
        super().__init__(part)
        self.part = part


def offline_reader(schema: StructType, settings: Settings) -> "OfflineReader":
    """The reader for this session and these options."""
    return (FilteringOfflineReader if takes_filters(settings) else OfflineReader)(schema, settings)


class OfflineReader(DataSourceReader):
    """Made on the driver, which calls `partitions`; tasks call `read` on a copy."""

    def __init__(self, schema: StructType, settings: Settings) -> None:
        path = settings[PATH]
        assert path is not None, "the source looks before it makes this reader"
        self._root = Path(path.removeprefix("file://"))
        self._schema = schema
        self._settings = settings
        self._subscription = TopicSelection(settings)
        self._narrowing = Narrowing()
        self._starting = starting_places(settings, default=AT_EARLIEST)
        self._ending = ending_places(settings)

    def partitions(self) -> list[InputPartition]:
        there = find_partitions(self._root)
        # Internal topics are recognised by their names.
        visible = [each for each in there if not each.topic.startswith(INTERNAL)]
        named = self._subscription.among(there, visible, where=str(self._root))
        starts = self._starting.of(named, "startingOffsets")
        ends = self._ending.of(named, "endingOffsets")
        log_starts = start_offsets(self._root)
        parts: list[InputPartition] = []
        for each in named:
            if self._narrowing.keeps(each):
                log = self._look_into(each, log_starts.get(each, 0))
                wanted = self._range(log, starts[each], ends[each])
                parts += [SegmentPartition(part) for part in self._parts(log, wanted)]
        return parts or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SegmentPartition):
            yield from _read(partition.part, self._schema, self._settings)

    def _look_into(self, partition: TopicPartition, start_offset: int) -> PartitionLog:
        include_active = self._settings[INCLUDE_ACTIVE_SEGMENT]
        try:
            return look_into(self._root, partition, start_offset, include_active=include_active)
        except FileNotFoundError as error:
            raise UserError(
                f"{error.filename} was deleted while the log was looked into: a broker is at work there; try again"
            ) from error

    def _range(self, log: PartitionLog, starting: Place, ending: Place) -> OffsetRange:
        end = log.stable_offset if self._subscription.committed_only else log.end_offset
        first = self._offset(log, starting, end, is_start=True)
        last = self._offset(log, ending, end, is_start=False)
        if isinstance(ending, AtOffset) and last > end:
            lost = Lost(
                log.partition, max(first, end), last, f"what can be read offline ends at offset {end}"
            )
            report_loss(lost, fail=self._settings[FAIL_ON_DATA_LOSS])
            last = end
        whole = self._narrowing.narrowed(OffsetRange(log.partition, min(first, last), last))
        lowest = self._narrowing.timestamp_ms_min
        if lowest is not None and whole.size:
            found = self._first_of_time(log, lowest)
            whole = whole._replace(start=min(max(whole.start, last if found is None else found), whole.end))
        left, lost_ranges = below_start([whole], {log.partition: log.start_offset})
        for each in lost_ranges:
            report_loss(each, fail=self._settings[FAIL_ON_DATA_LOSS])
        return left[0] if left else whole._replace(end=whole.start)

    def _offset(self, log: PartitionLog, place: Place, end: int, *, is_start: bool) -> int:
        match place:
            case AtOffset(offset):
                return offset
            case AtEnd(timestamp):
                return log.start_offset if timestamp == EARLIEST else end
        found = self._first_of_time(log, place.timestamp_ms)
        if found is not None:
            return min(found, end)
        if is_start and self._settings[STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY] != "latest":
            raise UserError(
                f"{log.partition} has no record of the starting time or later; "
                "with startingOffsetsByTimestampStrategy=latest nothing of it is read"
            )
        return end

    def _first_of_time(self, log: PartitionLog, timestamp_ms: int) -> int | None:
        return first_at_or_after(log, timestamp_ms, bytes_max=self._settings[DECOMPRESSED_BYTES_MAX])

    def _parts(self, log: PartitionLog, wanted: OffsetRange) -> Iterator[SegmentRange]:
        for segment in log.segments:
            start, end = max(wanted.start, segment.base_offset), min(wanted.end, segment.end_offset)
            if start < end:
                aborted = log.aborted if self._subscription.committed_only else []
                overlapping = (
                    each for each in aborted if each.first_offset < end and each.last_offset >= start
                )
                yield SegmentRange(segment, OffsetRange(log.partition, start, end), tuple(overlapping))


# In tasks.


class FilteringOfflineReader(TakesFilters, OfflineReader):
    """Gets the filters of a query before it plans."""


def _read(part: SegmentRange, schema: StructType, settings: Settings) -> Iterator[pa.RecordBatch]:
    try:
        file = open_segment(part.segment.path)
    except FileNotFoundError:
        lost = Lost(*part.wanted, f"the segment {part.segment.path} was deleted")
        report_loss(lost, fail=settings[FAIL_ON_DATA_LOSS])
        return
    with file:
        yield from _arrow(part, _batches(file, part, settings[FETCH_BYTES]), schema, settings)


def _arrow(
    part: SegmentRange,
    batches: Iterator[tuple[int, BatchHeader, memoryview]],
    schema: StructType,
    settings: Settings,
) -> Iterator[pa.RecordBatch]:
    wanted = part.wanted
    hidden = _Hidden(part.aborted)
    gathering = Gathering(
        schema,
        wanted.partition,
        start=wanted.start,
        end=wanted.end,
        decompressed_bytes_max=settings[DECOMPRESSED_BYTES_MAX],
    )
    for position, header, batch in batches:
        if header.is_control or hidden.has(header):
            continue
        try:
            yield from gathering.add(batch, header)
        except CorruptBatchError as error:
            raise DamagedLogError(part.segment.path, position, str(error)) from error
    yield from gathering.rest()


class _Hidden:
    """Recognises the batches of aborted transactions."""

    def __init__(self, aborted: Sequence[AbortedRange]) -> None:
        self._ranges: dict[int, list[AbortedRange]] = {}
        for each in aborted:
            self._ranges.setdefault(each.producer_id, []).append(each)

    def has(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.producer_id not in self._ranges:
            return False
        ranges = self._ranges[header.producer_id]
        return any(each.first_offset <= header.base_offset <= each.last_offset for each in ranges)


def _batches(
    file: BinaryIO, part: SegmentRange, piece_bytes: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """The batches that overlap a range, with their CRCs checked."""
    path, wanted = part.segment.path, part.wanted
    size = file.seek(0, 2)
    position = start = 0
    data = b""
    while position < size:
        if position - start + HEADER_SIZE > len(data):
            start, data = position, _piece(file, position, piece_bytes)
        header = read_header(data, position - start) if position + HEADER_SIZE <= size else None
        if header is None or not makes_sense(header) or position + header.size > size:
            raise DamagedLogError(path, position, "no batch begins there")
        if position - start + header.size > len(data):
            start, data = position, _piece(file, position, max(piece_bytes, header.size))
        at = position - start
        if header.next_offset > wanted.start and header.base_offset < wanted.end:
            if not crc_holds(data, at, header):
                raise DamagedLogError(
                    path, position, f"wrong CRC of the batch at offset {header.base_offset}"
                )
            yield position, header, memoryview(data)[at : at + header.size]
        if header.next_offset >= wanted.end:
            return  # bytes behind the last valid batch of an active segment are undefined
        position += header.size


def _piece(file: BinaryIO, position: int, count: int) -> bytes:
    file.seek(position)
    return file.read(max(count, HEADER_SIZE))
