"""Declares tables of topics. On the driver; needs no Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.fetch import FetchLimits, fetch, read_batches, read_fetched
from penstock.client.offsets import EARLIEST, LATEST, find_offsets
from penstock.spark.tables.declaration import LATEST as LATEST_KIND
from penstock.spark.tables.declaration import Declaration, Table, TopicFeed, create_table
from penstock.spark.tables.schemas import value_columns

SAMPLE_MAX: Final = 1_000
_SAMPLE_BYTES: Final = 1 << 20


def create_topic_table(
    warehouse: str | Path,
    name: str,
    feed: TopicFeed,
    *,
    kind: str,
    settings: Mapping[str, str] | None = None,
) -> Table:
    """Create an empty table of a topic; `refresh` fills it."""
    value_columns(feed.schema)
    keyed = kind == LATEST_KIND
    declaration = Declaration(
        kind,
        keys=("_key",) if keyed else (),
        # If partitions were added, a key may have records in several ones: then the newer timestamp wins.
        order=("_timestamp", "_partition") if keyed else (),
        origin="_partition" if keyed else None,
        feed=feed,
        settings=dict(settings or {}),
    )
    return create_table(warehouse, name, declaration)


async def sample_values(client: Client, topic: str, *, most: int = SAMPLE_MAX) -> list[bytes]:
    """Some of the first values of every partition of a topic."""
    (found,) = await client.retry(lambda: client.refresh([topic]))
    partitions = [TopicPartition(topic, each.partition) for each in found.partitions]
    starts = await find_offsets(client, dict.fromkeys(partitions, EARLIEST))
    ends = await find_offsets(client, dict.fromkeys(partitions, LATEST), committed_only=True)
    values: list[bytes] = []
    for number, partition in enumerate(partitions):
        if starts[partition] < ends[partition]:
            share = (most - len(values)) // (len(partitions) - number)
            values += await _first_values(client, partition, starts[partition], share)
    return values


async def _first_values(client: Client, partition: TopicPartition, start: int, most: int) -> list[bytes]:
    (node_id,) = await client.leaders([partition])
    limits = FetchLimits(max_wait_ms=100, max_bytes=_SAMPLE_BYTES, partition_max_bytes=_SAMPLE_BYTES)
    (fetched,) = await fetch(client, node_id, {partition: start}, limits, committed_only=True)
    if fetched.refusal is not None and fetched.refusal.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        raise AnsweredError(fetched.refusal, f"fetch from {partition}")
    values: list[bytes] = []
    for header, batch in read_batches(fetched):
        for record in read_fetched(batch, header, from_offset=start):
            if record.value is not None and len(values) < most:
                values.append(bytes(record.value))
    return values


def json_schema(columns: Mapping[str, Any], *, key: str) -> dict[str, Any]:
    return {"kind": "json", "columns": dict(columns), "key": key}


def avro_schema(schema: Mapping[str, Any], *, framing: str, key: str) -> dict[str, Any]:
    return {"kind": "avro", "schema": dict(schema), "framing": framing, "key": key}


def plain_schema(*, value: str, key: str) -> dict[str, Any]:
    return {"kind": "plain", "value": value, "key": key}
