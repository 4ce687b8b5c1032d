"""`spark.read.format("penstock")`: plans and executes batch reads."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.base.errors import UserError
from penstock.base.settings import Settings
from penstock.client.client import Client
from penstock.client.offsets import NO_OFFSET, find_offsets
from penstock.spark.connecting import cluster_of, connected
from penstock.spark.fetching import ReadRules, read_ranges, report_loss
from penstock.spark.options import (
    DECOMPRESSED_BYTES_MAX,
    FAIL_ON_DATA_LOSS,
    FETCH_BYTES,
    MAX_RECORDS_PER_PARTITION,
    MIN_PARTITIONS,
    TASK_OFFSETS_MIN,
)
from penstock.spark.planning import OffsetRange, below_start, gathered, ranges, split
from penstock.spark.positions import AT_EARLIEST, AT_LATEST, Positions, ending_places, starting_places
from penstock.spark.pushdown import Narrowing, TakesFilters, takes_filters
from penstock.spark.subscription import TopicSelection, log_starts


class RangePartition(InputPartition):
    """One task: a range of offsets, or several small ones."""

    def __init__(self, wanted: Sequence[OffsetRange]) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def read_rules(settings: Settings, subscription: TopicSelection) -> ReadRules:
    return ReadRules(
        committed_only=subscription.committed_only,
        fail_on_data_loss=settings[FAIL_ON_DATA_LOSS],
        fetch_bytes=settings[FETCH_BYTES],
        decompressed_bytes_max=settings[DECOMPRESSED_BYTES_MAX],
    )


def tasks_for(wanted: Sequence[OffsetRange], settings: Settings) -> list[InputPartition]:
    """The ranges as tasks, split or combined according to the options."""
    tasks_min = settings[MIN_PARTITIONS]
    pieces = split(wanted, tasks_min=tasks_min, size_max=settings[MAX_RECORDS_PER_PARTITION])
    size_min = 0 if tasks_min or settings[MAX_RECORDS_PER_PARTITION] else settings[TASK_OFFSETS_MIN]
    return [RangePartition(task) for task in gathered(pieces, size_min=size_min)]


def batch_reader(schema: StructType, settings: Settings) -> "BatchReader":
    """The reader for this session and these options."""
    return (FilteringBatchReader if takes_filters(settings) else BatchReader)(schema, settings)


class BatchReader(DataSourceReader):
    """Made on the driver, which calls `partitions`; tasks call `read` on a copy."""

    def __init__(self, schema: StructType, settings: Settings) -> None:
        self._schema = schema
        self._settings = settings
        self._subscription = TopicSelection(settings)
        self._narrowing = Narrowing()
        self._cluster = cluster_of(settings)
        # Checked before a broker is asked.
        self._starting = starting_places(settings, default=AT_EARLIEST, not_allowed=AT_LATEST)
        self._ending = ending_places(settings)

    def partitions(self) -> list[InputPartition]:
        with connected(self._cluster) as blocking:
            wanted = blocking.run(self._plan(blocking.client))
        return tasks_for(wanted, self._settings) or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            rules = read_rules(self._settings, self._subscription)
            yield from read_ranges(self._cluster, partition.wanted, rules, self._schema)

    async def _plan(self, client: Client) -> list[OffsetRange]:
        found = await self._subscription.find(client)
        starts = self._starting.of(found.partitions, "startingOffsets")
        ends = self._ending.of(found.partitions, "endingOffsets")
        kept = [each for each in found.partitions if self._narrowing.keeps(each)]
        if not kept:
            return []
        start = await self._subscription.locate(client, {each: starts[each] for each in kept})
        end = await self._subscription.locate(
            client, {each: ends[each] for each in kept}, later_than_all="latest"
        )
        _check_order(start, end)
        wanted = [self._narrowing.narrowed(each) for each in ranges(start, end)]
        wanted = await self._after(client, [each for each in wanted if each.size])
        left, lost = below_start(wanted, await log_starts(client, [each.partition for each in wanted]))
        for each in lost:
            report_loss(each, fail=self._settings[FAIL_ON_DATA_LOSS])
        return left

    async def _after(self, client: Client, wanted: list[OffsetRange]) -> list[OffsetRange]:
        """The ranges without the records before the time of a filter."""
        lowest = self._narrowing.timestamp_ms_min
        if lowest is None or not wanted:
            return wanted
        found = await find_offsets(client, {each.partition: lowest for each in wanted})
        later = []
        for each in wanted:
            first = found[each.partition]
            if first != NO_OFFSET and first < each.end:
                later.append(each._replace(start=max(each.start, first)))
        return later


class FilteringBatchReader(TakesFilters, BatchReader):
    """Gets the filters of a query before it plans."""


def _check_order(start: Positions, end: Positions) -> None:
    for each in sorted(start):
        if start[each] > end[each]:
            raise UserError(
                f"the read of {each} would begin at offset {start[each]} and end before, at {end[each]}: "
                "startingOffsets is behind the end of the log, or behind endingOffsets"
            )
