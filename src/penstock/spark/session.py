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

# What every session here gets unless the caller says otherwise.
_DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",  # it would listen on all of the machine's addresses
}
# Alone on one machine nobody else needs to reach the driver.
_LOCAL_DEFAULTS: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def open_session(
    name: str,
    settings: Mapping[str, str],
    *,
    master: str | None = None,
    remote: str | None = None,
) -> "SparkSession":
    """A session; UserError in one line if PySpark, Java or the cluster is missing."""
    have_pyspark()
    if remote is None:
        have_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
        defaults = {each: value for each, value in _DEFAULTS.items() if each.startswith("spark.sql.")}
    else:
        where = master or LOCAL_MASTER
        builder = builder.master(where)
        defaults = _DEFAULTS | (_local_settings() if where.startswith("local") else {})
    for each, value in {**defaults, **settings}.items():
        builder = builder.config(each, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise UserError(f"Spark does not start: {_first_line(error)}") from error


@contextmanager
def spark_session(name: str, *, master: str) -> "Iterator[SparkSession]":
    """A quiet session that ends with the block."""
    session = open_session(name, {"spark.log.level": "ERROR"}, master=master)
    try:
        yield session
    finally:
        session.stop()


def _local_settings() -> dict[str, str]:
    # Spark's 200 would make each small batch of a stateful flow a matter of seconds.
    partitions = max(2, min(os.cpu_count() or 2, _SHUFFLE_PARTITIONS_MAX))
    return {**_LOCAL_DEFAULTS, "spark.sql.shuffle.partitions": str(partitions)}


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
