"""The project that `penstock pipeline init` writes: it runs as it is, with a function and its test."""

import re
from pathlib import Path
from typing import Final

from penstock.base.errors import UserError

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")

_FILES: Final = {
    "pipeline.toml": """\
# A flow reads topics, passes them through a function from DataFrame to DataFrame, and writes what it returns.
name = "@NAME@"
bootstrap_servers = "@SERVERS@"
state = "state"    # checkpoints and tables

[flows.counts]
from = "@TOPIC@"
transform = "@NAME@_flows:records_per_minute"
to = { table = "records_per_minute", key = ["minute", "topic"] }
output_mode = "update"
trigger = "2 seconds"
""",
    "@NAME@_flows.py": '''\
"""The flows of @NAME@: plain functions from DataFrame to DataFrame."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def records_per_minute(records: DataFrame) -> DataFrame:
    """How many records each topic got in each minute, and how many bytes they hold.

    `records` has the columns key, value, topic, partition, offset, timestamp, timestampType and headers.
    """
    return (
        records.withWatermark("timestamp", "1 hour")
        .groupBy(F.window("timestamp", "1 minute").alias("window"), "topic")
        .agg(F.count("*").alias("records"), F.sum(F.length("value")).alias("bytes"))
        .select(F.col("window.start").alias("minute"), "topic", "records", "bytes")
    )
''',
    "test_@NAME@_flows.py": '''\
"""`pytest` runs this; no broker is needed, since flows are functions of DataFrames."""

from datetime import datetime, timezone

import pytest
from pyspark.sql import SparkSession

from @NAME@_flows import records_per_minute


@pytest.fixture(scope="session")
def spark():
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def test_records_of_one_minute_are_counted_together(spark):
    def at(minute, second):
        return datetime(2026, 1, 1, 12, minute, second, tzinfo=timezone.utc)

    rows = [(b"one", "orders", at(0, 1)), (b"three", "orders", at(0, 59)), (b"x", "orders", at(1, 0))]
    records = spark.createDataFrame(rows, "value binary, topic string, timestamp timestamp")

    counted = {row.minute: (row.records, row.bytes) for row in records_per_minute(records).collect()}

    assert sorted(counted.values()) == [(1, 1), (2, 8)]
''',
    "README.md": """\
# @NAME@

Reads the topic `@TOPIC@` and keeps a table of what came in each minute.

```
penstock pipeline run          # until Ctrl-C; --once reads what is there and ends
penstock pipeline describe     # how far each flow is, and how far behind
penstock pipeline reset counts # that flow from the beginning
pytest                         # the functions alone
```

`pipeline.toml` says which flows there are; their functions are in `@NAME@_flows.py`. The table is Parquet:

```python
from penstock.spark.tables import read

read(spark, "state/tables", "records_per_minute").show()
```
""",
    ".gitignore": "state/\n__pycache__/\n",
}


def write_template(directory: Path, *, name: str, topic: str, bootstrap_servers: str) -> list[Path]:
    """Write the project; UserError if the name is invalid, or the directory is not empty."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"a project cannot be called {name!r}: lower-case letters, digits and _ are allowed, a letter first, "
            "since its module is called so too"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} is there already and is not empty; choose another name")
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for file_name, text in _FILES.items():
        path = directory / file_name.replace("@NAME@", name)
        for word, meant in (("@NAME@", name), ("@TOPIC@", topic), ("@SERVERS@", bootstrap_servers)):
            text = text.replace(word, meant)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
