"""Generated logs on a topic, as DataFrames, and flows that run until they have read all of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.testing import EmbeddedBroker
from tests.spark.app_logs.flows import Flows
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from app_logs.generator import Line
    from pyspark.sql import DataFrame, SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def flows(spark: "SparkSession", broker: EmbeddedBroker, topics: Topics, tmp_path: Path) -> Iterator[Flows]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKSDB)  # the only one that `transformWithState` takes
    yield Flows(spark, broker.bootstrap_servers, topics, tmp_path)
    spark.conf.set(PROVIDER, before)


@pytest.fixture
def as_source(spark: "SparkSession") -> "Callable[[list[Line]], DataFrame]":
    """Lines as `format("penstock")` would read them from one partition, without a broker."""
    from penstock.spark.columns import schema_of
    from tests.spark.app_logs.flows import source_row

    def make(lines: "list[Line]") -> "DataFrame":
        rows = [source_row(offset, line.value, line.sent_ms) for offset, line in enumerate(lines)]
        return spark.createDataFrame(rows, schema_of(include_headers=True))

    return make
