"""Describes a table: rows, files, offsets and the lag behind its topic. Needs no Spark."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.offsets import LATEST, find_offsets
from penstock.spark.tables.declaration import Table
from penstock.spark.tables.manifest import read_manifest
from penstock.spark.tables.schemas import TOPIC_COLUMNS, value_columns


class TablePartition(NamedTuple):
    """A table's progress in one partition."""

    partition: TopicPartition
    next_offset: int
    end_offset: int | None  # None: unknown

    @property
    def lag(self) -> int | None:
        return None if self.end_offset is None else max(0, self.end_offset - self.next_offset)


class TableState(NamedTuple):
    """A table at one moment."""

    table: Table
    version: int
    columns: list[tuple[str, Any]]  # names and types, in Spark's JSON
    rows: int
    files: int
    bytes_count: int
    rejected: int
    partitions: list[TablePartition]

    @property
    def lag(self) -> int | None:
        lags = [each.lag for each in self.partitions]
        return None if not lags or None in lags else sum(each or 0 for each in lags)


def describe(table: Table, ends: Mapping[TopicPartition, int] | None = None) -> TableState:
    """Describe a table; `ends` are the end offsets of its topic's partitions, if they are known."""
    manifest = read_manifest(table.folder)
    reached = {
        TopicPartition(topic, int(index)): offset
        for topic, offsets in manifest.offsets.items()
        for index, offset in offsets.items()
    }
    return TableState(
        table,
        manifest.version,
        _columns(table, manifest.columns),
        manifest.row_count,
        len(manifest.files),
        manifest.bytes_count,
        manifest.rejected_count,
        [
            TablePartition(each, reached.get(each, 0), None if ends is None else ends.get(each))
            for each in sorted({*reached, *(ends or ())})
        ],
    )


async def topic_ends(client: Client, topic: str) -> dict[TopicPartition, int]:
    """The last stable offsets of a topic's partitions."""
    (found,) = await client.refresh([topic])
    asked = {TopicPartition(topic, each.partition): LATEST for each in found.partitions}
    return await find_offsets(client, asked, committed_only=True) if asked else {}


def _columns(table: Table, written: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    if written is not None:
        return [(each["name"], each["type"]) for each in written["fields"]]
    feed = table.declaration.feed
    if feed is None:
        return []
    kinds = ("string", "integer", "long", "timestamp", feed.schema["key"])
    values = [(each["name"], each["type"]) for each in value_columns(feed.schema)["fields"]]
    return values + list(zip(TOPIC_COLUMNS, kinds, strict=True))
