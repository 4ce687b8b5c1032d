"""One Spark session and one broker for the tests of a process: a session takes ten seconds to start.

Modules that use the session say `pytestmark = pytest.mark.xdist_group("spark")`, so that all run in one process. Those
that start programs with a Spark of their own say the same: Spark gives a Python worker ten seconds to start, whatever
is set, and two Sparks at once on two cores can take longer than that.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess
from peers.spark import connector_jars
from peers.tools import MissingToolError, require
from penstock.testing import EmbeddedBroker
from tests.broker_fixtures import topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["topic"]

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    with contextlib.suppress(MissingToolError):  # for tests/foreign, which says so if it is missing
        builder = builder.config("spark.jars", connector_jars())
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    # It outlives the interval between two looks for what is too old, and tests write records of other years.
    with EmbeddedBroker(settings={"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="session")
def penstock() -> Iterator[PenstockProcess]:
    """A broker for tests that kill it."""
    with PenstockProcess(settings={"transaction.two.phase.commit.enable": "true"}) as running:
        yield running


@pytest.fixture(scope="session")
def kafka() -> Iterator[ApacheKafka]:
    require("kafka")
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}
    with ApacheKafka(settings=settings) as running:
        yield running


@pytest.fixture
def read(spark: "SparkSession", broker: EmbeddedBroker) -> "Callable[..., DataFrame]":
    """A batch read of the broker with these options; `schema` selects columns."""

    def load(schema: str | None = None, **options: Any) -> "DataFrame":
        reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        for name, value in options.items():
            reader = reader.option(name, value)
        return (reader if schema is None else reader.schema(schema)).load()

    return load
