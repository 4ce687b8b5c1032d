"""`spark.readStream.format("penstock")`: micro-batches.

Spark keeps one reader on the driver for a run of a query and asks it for the end of the next batch (`latestOffset`) and
its tasks (`partitions`); tasks call `read` on a copy. The first offsets are looked up once and stored in the
checkpoint. `latestOffset` gets the end of the last batch, which is done, so that end is committed as progress (Spark
calls `commit` one batch later, and never for the last one).
"""

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.base.settings import Setting, Settings
from penstock.client.client import Client
from penstock.client.offsets import LATEST
from penstock.spark.batch_reader import RangePartition, read_rules, tasks_for
from penstock.spark.connecting import cluster_of, connected
from penstock.spark.fetching import read_ranges, report_loss
from penstock.spark.options import (
    FAIL_ON_DATA_LOSS,
    MAX_OFFSETS_PER_TRIGGER,
    MAX_TRIGGER_DELAY,
    MIN_OFFSETS_PER_TRIGGER,
)
from penstock.spark.planning import Lost, OffsetRange, below_start, limited, ranges
from penstock.spark.positions import AT_LATEST, Positions, Reached, starting_places
from penstock.spark.progress import group_for, show_progress
from penstock.spark.subscription import FoundPartitions, TopicSelection, log_starts

log = logging.getLogger("penstock.spark")

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Created once per run of a query."""

    def __init__(self, schema: StructType, settings: Settings) -> None:
        self._schema = schema
        self._settings = settings
        self._subscription = TopicSelection(settings)
        self._cluster = cluster_of(settings)
        self._starting = starting_places(settings, default=AT_LATEST)
        self._delay_ms_max = _duration_ms(MAX_TRIGGER_DELAY, settings[MAX_TRIGGER_DELAY])
        self._initial: dict[str, Any] | None = None
        self._target: Positions | None = None  # the end of a run with Trigger.AvailableNow
        self._waiting_since: float | None = None
        self._latest: Reached | None = None

    # Called by Spark on the driver.

    def initialOffset(self) -> dict[str, Any]:
        # Spark asks twice before the first batch, and must get the same answer.
        if self._initial is None:
            with connected(self._cluster) as blocking:
                self._initial = blocking.run(self._begin(blocking.client)).to_json()
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        reached = Reached.from_json(start)
        with connected(self._cluster) as blocking:
            return blocking.run(self._advance(blocking.client, reached, limit)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._settings[MAX_OFFSETS_PER_TRIGGER]
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else self._latest.to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        with connected(self._cluster) as blocking:
            found = blocking.run(self._subscription.find(blocking.client))
            self._target = blocking.run(
                self._subscription.ends(blocking.client, found.partitions, timestamp=LATEST)
            )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with connected(self._cluster) as blocking:
            wanted = blocking.run(
                self._plan(blocking.client, Reached.from_json(start), Reached.from_json(end))
            )
        return tasks_for(wanted, self._settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Called one batch late: `latestOffset` has committed the progress already."""

    def stop(self) -> None:
        pass

    # Called by Spark in tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        rules = read_rules(self._settings, self._subscription)
        return read_ranges(self._cluster, partition.wanted, rules, self._schema)

    # Planning.

    async def _begin(self, client: Client) -> Reached:
        found = await self._subscription.find(client)
        places = self._starting.of(found.partitions, "startingOffsets")
        positions = await self._subscription.locate(client, places)
        return Reached(positions, found.topic_ids, group_for(self._settings, uuid4().hex[:12]))

    async def _advance(self, client: Client, reached: Reached, limit: ReadLimit) -> Reached:
        group = self._group(reached)
        found = await self._find(client, reached)
        start = self._continued(reached, found)
        if group is not None:
            await show_progress(client, group, start)
        latest = await self._subscription.ends(client, found.partitions, timestamp=LATEST)
        self._latest = Reached(latest, found.topic_ids, group)
        end = self._bounded(client, start, latest, limit)
        return Reached(end, {**reached.topic_ids, **found.topic_ids}, group)

    def _group(self, reached: Reached) -> str | None:
        """The configured group, else the one in the checkpoint."""
        token = (reached.group or "").rpartition("-")[2] or uuid4().hex[:12]
        return group_for(self._settings, token)

    async def _find(self, client: Client, reached: Reached) -> FoundPartitions:
        found = await self._subscription.find(client)
        before = {each.topic for each in reached.positions}
        now = {each.topic for each in found.partitions}
        if before and not before & now:
            raise UserError(
                f"the checkpoint is of {', '.join(sorted(before))}, and this query reads {self._subscription}: "
                "a query that reads something else needs a checkpoint of its own"
            )
        return found

    def _continued(self, reached: Reached, found: FoundPartitions) -> Positions:
        """The position of each existing partition. New ones begin at 0, and so do those of a topic that was deleted and
        created again."""
        recreated = reached.recreated_topics(found.topic_ids)
        for topic in sorted(recreated):
            self._lost(topic, reached, "the topic was deleted and created again")
        for topic in sorted(
            {each.topic for each in reached.positions} - {each.topic for each in found.partitions}
        ):
            self._lost(topic, reached, "the topic was deleted")
        return {
            each: 0 if each.topic in recreated else reached.positions.get(each, 0)
            for each in found.partitions
        }

    def _lost(self, topic: str, reached: Reached, reason: str) -> None:
        for partition, offset in sorted(reached.positions.items()):
            if partition.topic == topic:
                report_loss(_from(partition, offset, reason), fail=self._settings[FAIL_ON_DATA_LOSS])

    def _bounded(self, client: Client, start: Positions, latest: Positions, limit: ReadLimit) -> Positions:
        if self._target is not None:
            # New partitions have no target: the next run reads them.
            latest = {each: min(offset, self._target.get(each, 0)) for each, offset in latest.items()}
        latest = {each: max(offset, start[each]) for each, offset in self._not_shorter(start, latest).items()}
        if isinstance(limit, ReadMaxRows):
            latest = limited(start, latest, limit.max_rows)
        return start if self._should_wait(client, start, latest, limit) else latest

    def _not_shorter(self, start: Positions, latest: Positions) -> Positions:
        for each, offset in latest.items():
            if offset < start[each] and self._target is None:
                lost = Lost(each, offset, start[each], f"the log ends at offset {offset} now")
                report_loss(lost, fail=self._settings[FAIL_ON_DATA_LOSS])
        return latest

    def _should_wait(self, client: Client, start: Positions, latest: Positions, limit: ReadLimit) -> bool:
        least = self._settings[MIN_OFFSETS_PER_TRIGGER]
        there = sum(latest[each] - start[each] for each in latest)
        if not least or there >= least or not there or self._target is not None:
            self._waiting_since = None
            return False
        if isinstance(limit, ReadAllAvailable) and self._settings[MAX_OFFSETS_PER_TRIGGER]:
            return False  # Trigger.Once: up to the present end
        now = client.loop.time()
        if self._waiting_since is None:
            self._waiting_since = now
        waits = (now - self._waiting_since) * 1000 < self._delay_ms_max
        if not waits:
            self._waiting_since = None
        return waits

    async def _plan(self, client: Client, start: Reached, end: Reached) -> list[OffsetRange]:
        recreated = start.recreated_topics(end.topic_ids)
        begin = {each: offset for each, offset in start.positions.items() if each.topic not in recreated}
        wanted = ranges(begin, end.positions)
        there = await self._still_there(client, wanted)
        left, lost = below_start(there, await log_starts(client, [each.partition for each in there]))
        for each in lost:
            report_loss(each, fail=self._settings[FAIL_ON_DATA_LOSS])
        return left

    async def _still_there(self, client: Client, wanted: list[OffsetRange]) -> list[OffsetRange]:
        """The ranges of existing topics: a batch that is repeated after a restart may name deleted ones."""
        topics = sorted({each.partition.topic for each in wanted})
        known: Mapping[str, int] = {
            topic.name: len(topic.partitions) for topic in await client.retry(lambda: client.refresh(topics))
        }
        there = []
        for each in wanted:
            if each.partition.partition < known.get(each.partition.topic, 0):
                there.append(each)
            else:
                lost = Lost(each.partition, each.start, each.end, "the topic was deleted")
                report_loss(lost, fail=self._settings[FAIL_ON_DATA_LOSS])
        return there


def _from(partition: TopicPartition, offset: int, reason: str) -> Lost:
    return Lost(
        partition, offset, offset + 1, f"{reason}; what was written from there on cannot be read any more"
    )


def _duration_ms(option: Setting[Any], raw: str) -> int:
    found = re.fullmatch(r"\s*(\d{1,9})\s*(ms|s|m|h)\s*", raw)
    if found is None:
        raise option.error(raw, "a number and a unit are expected, as in 30s")
    return int(found[1]) * _UNITS_MS[found[2]]
