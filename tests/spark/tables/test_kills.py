"""From a topic into a table, with driver, worker or broker killed on the way: every record exactly once."""

import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peers.penstock import PenstockProcess
from penstock.base.errors import UserError
from penstock.client.producer import NewRecord
from penstock.spark import tables
from penstock.spark.tables import refreshing, writing
from penstock.spark.tables.declaration import Table, TopicFeed
from penstock.spark.tables.manifest import read_manifest, replace_manifest
from penstock.spark.tables.topic_tables import plain_schema
from penstock.testing import EmbeddedBroker
from tests.spark.failing import await_file
from tests.spark.tables.crashing_reads import register_crashing
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

RECORDS = 30
KEYS = 7
BATCH = {"batch.offsets.max": "20"}  # two batches
LIFE_TIMEOUT_S = 300
EVERY_ONE = sorted((str(n),) for n in range(RECORDS))
NEWEST = sorted((str(n % KEYS), str(n)) for n in range(RECORDS - KEYS, RECORDS))

Make = Callable[..., list[Table]]


@pytest.fixture
def make(topic: str, tmp_path: Path) -> Make:
    """A topic of two partitions, with keys that come again, and tables of it."""

    def create(servers: str, kind: str, *names: str) -> list[Table]:
        topics = Topics(servers)
        topics.create(topic, 2)
        topics.write(
            topic,
            [NewRecord(b"%d" % (n % KEYS), b"%d" % n, partition=n % KEYS % 2) for n in range(RECORDS)],
        )
        feed = TopicFeed(topic, servers, plain_schema(value="string", key="string"))
        return [tables.create_topic_table(tmp_path, name, feed, kind=kind, settings=BATCH) for name in names]

    return create


@pytest.fixture(
    params=["penstock", pytest.param("kafka", marks=[pytest.mark.foreign, pytest.mark.needs("kafka")])]
)
def servers(request: pytest.FixtureRequest) -> str:
    bootstrap: str = request.getfixturevalue(request.param).bootstrap
    return bootstrap


def with_options(table: Table, **options: str) -> Table:
    """The same table, fed with more options."""
    feed = table.declaration.feed
    assert feed is not None
    given = {name.replace("_", "."): value for name, value in options.items()}
    return table._replace(declaration=replace(table.declaration, feed=replace(feed, options=given)))


def with_other_partitions(table: Table) -> Table:
    """The same table, read by another number of tasks."""
    return with_options(table, minPartitions="5")


def rows_of(spark: "SparkSession", table: Table, *names: str) -> list[tuple[Any, ...]]:
    frame = tables.read(spark, table.folder.parent, table.name).select(*names)
    return sorted(tuple(row) for row in frame.collect())


def no_files_are_left_over(table: Table) -> bool:
    manifest = read_manifest(table.folder)
    named = {each.path.split("/")[1] for each in (*manifest.files, *manifest.retired)}
    return {path.name for path in (table.folder / "data").iterdir()} == named


def test_a_killed_refresh_that_is_run_again_neither_loses_nor_repeats_rows(
    spark: "SparkSession", broker: EmbeddedBroker, make: Make
) -> None:
    before, after = make(broker.bootstrap_servers, "append", "before", "after")
    program = "tests.spark.tables.refresh_until_killed"
    done = subprocess.run(
        [sys.executable, "-m", program, str(before.folder.parent), before.name, after.name],
        capture_output=True,
        timeout=LIFE_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    # The second batch's rows are in files, but not in the manifest.
    assert list(read_manifest(before.folder).applied.values()) == [0]
    assert not no_files_are_left_over(before)
    tables.refresh(spark, with_other_partitions(before))
    assert rows_of(spark, before, "value") == EVERY_ONE
    assert no_files_are_left_over(before)

    # They are in the table, and Spark has not committed the batch.
    assert list(read_manifest(after.folder).applied.values()) == [1]
    assert not (after.folder / "checkpoint" / "commits" / "1").exists()
    version = read_manifest(after.folder).version
    tables.refresh(spark, with_other_partitions(after))
    assert rows_of(spark, after, "value") == EVERY_ONE
    assert read_manifest(after.folder).version == version


def test_a_failed_refresh_of_a_latest_table_is_made_good(
    spark: "SparkSession", broker: EmbeddedBroker, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch fails when its rows are written, then when they are in the table."""
    (table,) = make(broker.bootstrap_servers, "latest", "t")

    def fail_before(*_: Any) -> None:
        raise UserError("the plug was pulled")

    def fail_after(folder: Path, manifest: Any) -> None:
        replace_manifest(folder, manifest)
        raise UserError("the plug was pulled")

    for failing, applied in ((fail_before, []), (fail_after, [0])):
        with monkeypatch.context() as patched:
            patched.setattr(writing, "replace_manifest", failing)
            with pytest.raises(UserError, match="the plug was pulled"):
                tables.refresh(spark, table)
        assert list(read_manifest(table.folder).applied.values()) == applied
    tables.refresh(spark, with_other_partitions(table))
    assert rows_of(spark, table, "_key", "value") == NEWEST


def test_a_worker_that_is_killed_in_a_task_takes_nothing_with_it_and_leaves_nothing(
    spark: "SparkSession", servers: str, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (table,) = make(servers, "append", "t")
    happened = tmp_path / "happened"
    with monkeypatch.context() as patched:
        patched.setattr(refreshing, "register", register_crashing)
        with pytest.raises(UserError, match="could not be refreshed"):
            tables.refresh(spark, with_options(table, crash_at="in a read", crash_once=str(happened)))
    assert happened.exists(), "nothing was killed"
    assert read_manifest(table.folder).row_count == 0
    tables.refresh(spark, with_other_partitions(table))
    assert rows_of(spark, table, "value") == EVERY_ONE
    assert no_files_are_left_over(table)


def test_a_broker_that_is_killed_in_a_batch_is_waited_for(
    spark: "SparkSession",
    penstock: PenstockProcess,
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task has read one partition and not the other."""
    (table,) = make(penstock.bootstrap, "append", "t")
    happened = tmp_path / "happened"
    monkeypatch.setattr(refreshing, "register", register_crashing)
    held = with_options(table, crash_at="hold in a read", crash_once=str(happened))
    with ThreadPoolExecutor(1) as threads:
        refresh = threads.submit(tables.refresh, spark, held)
        await_file(happened)
        penstock.kill()
        Path(f"{happened}.go").touch()  # so it meets a broker that is not there
        penstock.start()
        assert refresh.result(LIFE_TIMEOUT_S)[:2] == (2, RECORDS)
    assert rows_of(spark, table, "value") == EVERY_ONE
