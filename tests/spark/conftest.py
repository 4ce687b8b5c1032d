"""One Spark session and one broker for the tests of a process: a session takes ten seconds to start.

Modules that use the session say `pytestmark = pytest.mark.xdist_group("spark")`, so that all run in one process. Those
that start programs with a Spark of their own say the same: Spark gives a Python worker ten seconds to start, whatever
is set, and two Sparks at once on two cores can take longer than that. All of the group need Java.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess
from peers.spark import connector_jars
from peers.tools import MissingToolError, within_reach
from penstock.spark.session import LOCAL_DEFAULTS
from penstock.testing import EmbeddedBroker
from tests.broker_fixtures import topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["topic"]

CONFIGURATION = {
    **LOCAL_DEFAULTS,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.log.level": "ERROR",
}


# It does as the real one, and writes down what it was asked.
READLINK = """#!/bin/sh
echo "$@" >> "{log}"
exec "{real}" "$@"
"""


@pytest.fixture(scope="session")
def links_looked_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the session's driver has asked `readlink`: a line each, in a file that is not there before the first."""
    folder = tmp_path_factory.mktemp("readlink")
    program = folder / "readlink"
    program.write_text(READLINK.format(log=folder / "log", real=shutil.which("readlink") or "readlink"))
    program.chmod(0o755)
    return folder / "log"


@pytest.fixture(scope="session")
def spark(needs_java: None, links_looked_up: Path) -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    # For tests/foreign, which declares the connector: the session is everybody's.
    with within_reach(None), contextlib.suppress(MissingToolError):
        builder = builder.config("spark.jars", connector_jars())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(links_looked_up.parent), prepend=os.pathsep)
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
def kafka(needs_kafka: None) -> Iterator[ApacheKafka]:
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
