"""From a topic into a table, with the driver killed on the way: every record exactly once."""

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.base.errors import UserError
from penstock.client.producer import NewRecord
from penstock.spark import tables
from penstock.spark.tables import writing
from penstock.spark.tables.declaration import Table, TopicFeed
from penstock.spark.tables.manifest import read_manifest, replace_manifest
from penstock.spark.tables.topic_tables import plain_schema
from penstock.testing import EmbeddedBroker
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

RECORDS = 30
BATCH = {"batch.offsets.max": "20"}
LIFE_TIMEOUT_S = 120


@pytest.fixture
def make(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> Callable[[str], Table]:
    """A topic of two partitions, with keys that come again, and a table of it."""

    def create(kind: str) -> Table:
        topics = Topics(broker.bootstrap_servers)
        topics.create(topic, 2)
        topics.write(
            topic, [NewRecord(b"%d" % (n % 7), b"%d" % n, partition=n % 7 % 2) for n in range(RECORDS)]
        )
        feed = TopicFeed(topic, broker.bootstrap_servers, plain_schema(value="string", key="string"))
        return tables.create_topic_table(tmp_path, "t", feed, kind=kind, settings=BATCH)

    return create


def with_other_partitions(table: Table) -> Table:
    """The same table, read by another number of tasks."""
    feed = table.declaration.feed
    assert feed is not None
    other = replace(feed, options={"minPartitions": "5"})
    return table._replace(declaration=replace(table.declaration, feed=other))


def rows_of(spark: "SparkSession", table: Table, *names: str) -> list[tuple[Any, ...]]:
    frame = tables.read(spark, table.folder.parent, table.name).select(*names)
    return sorted(tuple(row) for row in frame.collect())


def live_until_killed(table: Table, when: str, number: int) -> None:
    arguments = [str(table.folder.parent), table.name, when, str(number)]
    command = [sys.executable, "-m", "tests.spark.tables.refresh_until_killed", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=LIFE_TIMEOUT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-3000:]


def test_a_killed_refresh_that_is_run_again_neither_loses_nor_repeats_rows(
    spark: "SparkSession", make: Callable[[str], Table]
) -> None:
    table = make("append")
    live_until_killed(table, "before", 2)  # the second batch's rows are written, and nobody knows
    first = read_manifest(table.folder)
    assert (list(first.applied.values()), first.row_count < RECORDS) == ([0], True)
    live_until_killed(table, "after", 1)  # they are in the table, and Spark has not committed the batch
    assert list(read_manifest(table.folder).applied.values()) == [1]
    assert not (table.folder / "checkpoint" / "commits" / "1").exists()
    tables.refresh(spark, with_other_partitions(table))
    assert rows_of(spark, table, "value") == sorted((str(n),) for n in range(RECORDS))
    left = {path.name for path in (table.folder / "data").iterdir()}
    assert left == {each.path.split("/")[1] for each in read_manifest(table.folder).files}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_refresh_of_a_latest_table_is_made_good(
    spark: "SparkSession", make: Callable[[str], Table], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    table = make("latest")

    def failing(folder: Path, manifest: Any) -> None:
        if when == "after":
            replace_manifest(folder, manifest)
        raise UserError("the plug was pulled")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "replace_manifest", failing)
        with pytest.raises(UserError, match="the plug was pulled"):
            tables.refresh(spark, table)
    tables.refresh(spark, with_other_partitions(table))
    newest = {n % 7: n for n in range(RECORDS)}
    assert rows_of(spark, table, "_key", "value") == sorted((str(key), str(n)) for key, n in newest.items())
