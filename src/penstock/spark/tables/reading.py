"""Tables as DataFrames, and by name in Spark SQL."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.base.errors import UserError
from penstock.spark.tables.declaration import open_table
from penstock.spark.tables.files import load
from penstock.spark.tables.manifest import read_manifest


def read(spark: SparkSession, warehouse: str | Path, name: str) -> DataFrame:
    """A snapshot of a table as a DataFrame: whole batches, unaffected by later ones. Read again to see new batches."""
    table = open_table(warehouse, name)
    manifest = read_manifest(table.folder)
    if manifest.columns is None:
        raise UserError(f"table {name} in {warehouse} has no columns yet: nothing was ever written to it")
    return load(spark, table.folder, manifest.files, StructType.fromJson(dict(manifest.columns)))


def read_rejected(spark: SparkSession, warehouse: str | Path, name: str) -> DataFrame | None:
    """The rejected records of a table, with the reason; None if there are none."""
    table = open_table(warehouse, name)
    files = read_manifest(table.folder).rejected
    return load(spark, table.folder, files, None) if files else None


def register_view(
    spark: SparkSession, warehouse: str | Path, name: str, view: str | None = None
) -> DataFrame:
    """`read`, and a temporary view for SQL, by default with the table's name and '_' for '-' and '.'."""
    frame = read(spark, warehouse, name)
    frame.createOrReplaceTempView(view or name.replace("-", "_").replace(".", "_"))
    return frame
