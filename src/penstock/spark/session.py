"""A Spark session for a command: on this machine, on a cluster, or through Spark Connect."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.base.errors import UserError
from penstock.spark.java import have_java, have_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*]"

_SHUFFLE_PARTITIONS_MAX: Final = 8
_POOL: Final = "spark.scheduler.pool"

# Defaults of every session.
_DEFAULTS: Final = {
    # A batch writes the changes of its state, not a full copy.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",  # Spark's UI would listen on all addresses of the machine
}
# Further defaults of local sessions.
LOCAL_DEFAULTS: Final = {
    # No other machine needs to reach the driver.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark's own choice goes through Hadoop's FileContext, which on a local disk starts ten processes for every file
    # (`readlink`, `chmod`) and deletes a file before it puts another in its place. This one starts two, and renames.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # PySpark's jars have several file systems for `file:`, and the first one found may refuse to replace a file.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    # Queries share the cores fairly (`in_a_pool`); else the tasks of the first query run first.
    "spark.scheduler.mode": "FAIR",
    # Spark's Python workers are forked from a process that has imported the data source.
    "spark.python.daemon.module": "penstock.spark.daemon",
}


def check_spark(*, remote: str | None = None) -> None:
    """Raise UserError if PySpark, or Java for a local session, is missing."""
    have_pyspark()
    if remote is None:
        have_java()


def open_session(
    name: str,
    settings: Mapping[str, str],
    *,
    master: str | None = None,
    remote: str | None = None,
) -> "SparkSession":
    """Start a session; UserError if PySpark, Java or the cluster is missing."""
    check_spark(remote=remote)
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    builder = builder.master(master or LOCAL_MASTER) if remote is None else builder.remote(remote)
    for each, value in settings_of(settings, master=master, remote=remote).items():
        builder = builder.config(each, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise UserError(f"Spark does not start: {_first_line(error)}") from error


def settings_of(given: Mapping[str, str], *, master: str | None, remote: str | None) -> dict[str, str]:
    """The settings of a session with that master: the given ones override the defaults."""
    if remote is not None:
        defaults = {each: value for each, value in _DEFAULTS.items() if each.startswith("spark.sql.")}
    elif (master or LOCAL_MASTER).startswith("local"):
        defaults = _DEFAULTS | _local_settings()
    else:
        defaults = _DEFAULTS
    return {**defaults, **given}


@contextmanager
def spark_session(name: str, *, master: str) -> "Iterator[SparkSession]":
    """A session with Spark's log turned down, stopped at the end of the block."""
    session = open_session(name, {"spark.log.level": "ERROR"}, master=master)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def in_a_pool(session: "SparkSession", name: str) -> Iterator[None]:
    """Queries that are started inside the block share the cores fairly with those of other pools."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        yield
        return
    session.sparkContext.setLocalProperty(_POOL, name)
    try:
        yield
    finally:
        session.sparkContext.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # its type forgets that this removes it


def _local_settings() -> dict[str, str]:
    # With Spark's default, 200, each small batch of a stateful flow would take seconds.
    partitions = max(2, min(os.cpu_count() or 2, _SHUFFLE_PARTITIONS_MAX))
    return {**LOCAL_DEFAULTS, "spark.sql.shuffle.partitions": str(partitions)}


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
