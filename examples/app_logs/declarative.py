"""The same transformations as a declarative pipeline: tables that `spark-pipelines run` brings up to date.

A run reads what is new in the topic into the streaming tables, recomputes the materialised views, and ends.
`--full-refresh events,endpoint_minutes` begins again for these alone, `--full-refresh-all` for all. Nothing here runs
unless Spark's pipelines load it; `spark-pipeline.yml`, which `specification` writes, names it. Brokers are those of
APP_LOGS_BOOTSTRAP_SERVERS, else localhost:9092.

Views add columns by `select("*", …)`. With `withColumn` Spark 4.3 looks a table up at once if it is there already, so
from the second run on it would not know that the view has to wait for the table, and compute it from what was there.
"""

import os
import sys
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

# Spark loads this file by its path; the others are found beside it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app_logs import bi, monitoring, parsing, tracing
from app_logs.logs import TOPIC


def source() -> DataFrame:
    """The topic from its beginning; then each table goes on where it was."""
    servers = os.environ.get("APP_LOGS_BOOTSTRAP_SERVERS", "localhost:9092")
    reader = SparkSession.active().readStream.format("penstock").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()


@dp.table
def events() -> DataFrame:
    """What counts."""
    return parsing.events(source())


@dp.table
def dead_letters() -> DataFrame:
    """What does not, and why."""
    return parsing.rejected(source())


@dp.materialized_view
def traces() -> DataFrame:
    """Stitched again from all events by the same rules: Spark 4.3 has no `transformWithState` in a pipeline's query."""
    return tracing.readable(tracing.stitch_all(SparkSession.active().read.table("events")))


@dp.materialized_view
def endpoint_minutes() -> DataFrame:
    return bi.per_minute(SparkSession.active().read.table("events"))


@dp.materialized_view
def alerts() -> DataFrame:
    return monitoring.thresholds_crossed(monitoring.windows(SparkSession.active().read.table("events")))


@dp.materialized_view
def call_graph() -> DataFrame:
    return tracing.calls(SparkSession.active().read.table("traces"))
