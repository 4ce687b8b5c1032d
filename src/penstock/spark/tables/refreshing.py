"""Refreshes a table from its topic: one run of a streaming query up to the topic's end. On the driver.

The query's checkpoint is in the table's folder. The next refresh finishes a killed one: Spark repeats the batch, and
`write_batch` knows whether it was written. If the checkpoint is lost, a new query starts from the offsets in the
manifest.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from penstock.base.errors import UserError
from penstock.client.offsets import EARLIEST
from penstock.spark import register
from penstock.spark.connecting import cluster_of, connected
from penstock.spark.options import read_settings
from penstock.spark.positions import Reached
from penstock.spark.tables.declaration import LATEST, Table, TopicFeed
from penstock.spark.tables.decoding import decode
from penstock.spark.tables.locking import refreshing
from penstock.spark.tables.manifest import CHECKPOINT, Manifest, read_manifest
from penstock.spark.tables.settings import BATCH_OFFSETS_MAX
from penstock.spark.tables.writing import write_batch

_OURS: Final = re.compile(r"penstock\.[a-z_.]+\.\w*Error: (.*)")


class Refreshed(NamedTuple):
    """The result of a refresh."""

    batches: int
    rows: int  # in the table now
    rejected: int  # since the beginning
    row_change: int
    rejected_change: int


def refresh(spark: SparkSession, table: Table) -> Refreshed:
    """Write the topic's new records, up to its present end, to the table."""
    feed = feed_of(table)
    with refreshing(table):
        before = read_manifest(table.folder)
        register(spark)
        _run(spark, table, feed, before)
        after = read_manifest(table.folder)
    return Refreshed(
        _batches(before, after),
        after.row_count,
        after.rejected_count,
        after.row_count - before.row_count,
        after.rejected_count - before.rejected_count,
    )


def feed_of(table: Table) -> TopicFeed:
    """The topic of a table; UserError if the table is not fed from one."""
    feed = table.declaration.feed
    if feed is None:
        raise UserError(
            f"table {table.name} is written by a pipeline, not fed from a topic: run the pipeline"
        )
    return feed


def _run(spark: SparkSession, table: Table, feed: TopicFeed, manifest: Manifest) -> None:
    checkpoint = table.folder / CHECKPOINT

    def apply(records: DataFrame, batch_id: int) -> None:
        offsets = _end_offsets(checkpoint, batch_id)
        keyed = table.declaration.kind == LATEST
        decoded = decode(records, feed.schema, keyed=keyed)
        try:
            rows = _last_of_partitions(decoded.rows) if keyed else decoded.rows
            write_batch(rows, batch_id, table, rejected=decoded.rejected, offsets=offsets)
        finally:
            decoded.persisted.unpersist()

    stream = spark.readStream.format("penstock").options(**_options(table, feed, manifest)).load()
    query = (
        stream.writeStream.foreachBatch(apply)
        .option("checkpointLocation", checkpoint.as_uri())
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise UserError(f"table {table.name} could not be refreshed: {_cause(error)}") from error
    finally:
        query.stop()


def _options(table: Table, feed: TopicFeed, manifest: Manifest) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": feed.bootstrap_servers,
        "subscribe": feed.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(table.settings[BATCH_OFFSETS_MAX]),
        "penstock.commit.group": f"penstock-table-{table.name}",
        **feed.options,
    }
    reached = manifest.offsets.get(feed.topic)
    if reached and not (table.folder / CHECKPOINT / "offsets").exists():
        partitions = {str(each): EARLIEST for each in _partitions(options, feed.topic)}
        options["startingOffsets"] = json.dumps({feed.topic: {**partitions, **reached}})
    return options


def _partitions(options: Mapping[str, str], topic: str) -> list[int]:
    with connected(cluster_of(read_settings(options))) as blocking:
        (found,) = blocking.run(blocking.client.refresh([topic]))
    return sorted(each.partition for each in found.partitions)


def _last_of_partitions(rows: DataFrame) -> DataFrame:
    """Per key, the last record of each partition: within a partition, offsets decide, not timestamps."""
    last_first = Window.partitionBy("_key", "_topic", "_partition").orderBy(F.col("_offset").desc())
    ranked = rows.withColumn("_rank", F.row_number().over(last_first))
    return ranked.where(F.col("_rank") == 1).drop("_rank")


def _end_offsets(checkpoint: Path, batch_id: int) -> Mapping[str, Mapping[str, int]]:
    """The end offsets of a batch, which Spark writes to the checkpoint before the batch begins."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    positions = Reached.from_json(json.loads(lines[-1])).positions
    ends: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(positions.items()):
        ends.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return ends


def _batches(before: Manifest, after: Manifest) -> int:
    """How many batches were written."""
    return sum(
        batch - before.applied.get(query_id, -1)
        for query_id, batch in after.applied.items()
        if batch != before.applied.get(query_id)
    )


def _cause(error: PySparkException) -> str:
    """Penstock's own error in Spark's message, or the first line of that."""
    text = str(error)
    found = _OURS.findall(text)
    return found[-1] if found else text.strip().partition("\n")[0]
