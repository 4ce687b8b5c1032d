"""A table's Parquet files: rows counted when they are written, read as one DataFrame."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.spark.tables.manifest import DataFile, sync


def parquet_files(table: Path, folder: Path) -> tuple[DataFile, ...]:
    """The files that Spark has written to a folder, synced; empty ones are left out."""
    found = []
    for path in sorted(folder.glob("*.parquet")):
        rows = pq.read_metadata(path).num_rows
        if rows:
            sync(path)
            found.append(DataFile(path.relative_to(table).as_posix(), rows, path.stat().st_size))
    if found:
        sync(folder)
        sync(folder.parent)
    else:
        shutil.rmtree(folder)
    return tuple(found)


def load(spark: SparkSession, table: Path, files: Sequence[DataFile], schema: StructType | None) -> DataFrame:
    """The rows of some files as a DataFrame; without files, an empty one with the given schema."""
    if not files:
        assert schema is not None
        return spark.createDataFrame([], schema)
    reader = spark.read if schema is None else spark.read.schema(schema)
    return reader.parquet(*((table / each.path).as_uri() for each in files))
