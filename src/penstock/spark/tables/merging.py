"""Merges a batch into a latest table, one row per key: the buckets of the batch's keys are rewritten. On the driver."""

from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.column import Column
from pyspark.sql.types import StructType

from penstock.spark.tables.declaration import Declaration, Table
from penstock.spark.tables.files import load, parquet_files
from penstock.spark.tables.manifest import DataFile, Manifest
from penstock.spark.tables.settings import BUCKETS

DELETED: Final = "_deleted"  # a column of batches: true if the key's row is to be deleted. It is not stored
_BUCKET: Final = "_bucket"


def merge(
    rows: DataFrame, table: Table, manifest: Manifest, schema: StructType, attempt: str
) -> tuple[tuple[DataFile, ...], list[DataFile]]:
    """Write the batch; returns the new files, and those that they replace."""
    keys = table.declaration.keys
    bucket = F.pmod(F.xxhash64(*map(quoted, keys)), F.lit(table.settings[BUCKETS])).cast("int")
    new = _one_per_key(rows, table.declaration).persist()
    try:
        touched = sorted(row[0] for row in new.select(bucket).distinct().collect())
        if not touched:
            return (), []
        replaced = [each for each in manifest.files if each.bucket in touched]
        old = load(new.sparkSession, table.folder, replaced, schema)
        merged = _newer(old, new, table.declaration, schema.names)
        folder = table.folder / attempt
        (
            merged.withColumn(_BUCKET, bucket)
            .repartition(len(touched), _BUCKET)
            .write.partitionBy(_BUCKET)
            .parquet(folder.as_uri())
        )
    finally:
        new.unpersist()
    return _out_of_bucket_folders(table.folder, folder), replaced


def quoted(name: str) -> str:
    """A column's name in backquotes, so that Spark does not parse it as an expression."""
    return f"`{name.replace('`', '``')}`"


def _one_per_key(rows: DataFrame, declaration: Declaration) -> DataFrame:
    if DELETED not in rows.columns:
        rows = rows.withColumn(DELETED, F.lit(False))
    # Without an order any of several rows of a key may be kept, but always the same one.
    by = [F.col(quoted(each)) for each in declaration.order] or [F.xxhash64(*map(quoted, rows.columns))]
    newest_first = Window.partitionBy(*map(quoted, declaration.keys)).orderBy(
        *(each.desc_nulls_last() for each in by)
    )
    ranked = rows.withColumn("_rank", F.row_number().over(newest_first))
    return ranked.where(F.col("_rank") == 1).drop("_rank")


def _newer(old: DataFrame, new: DataFrame, declaration: Declaration, names: list[str]) -> DataFrame:
    """For each key the newer of its two rows, or none if that one is a deletion."""
    left = old.select(F.struct(*map(quoted, names)).alias("old"))
    right = new.select(F.struct(*map(quoted, names)).alias("new"), F.col(DELETED))
    same_key = reduce(
        lambda so_far, each: so_far & each,
        [F.col(f"old.{key}").eqNullSafe(F.col(f"new.{key}")) for key in map(quoted, declaration.keys)],
    )
    both = left.join(right, same_key, "full_outer")
    new_stays = F.col("new").isNotNull() & (F.col("old").isNull() | _wins(declaration))
    kept = both.where(~(new_stays & F.coalesce(F.col(DELETED), F.lit(False))))
    return kept.select(F.when(new_stays, F.col("new")).otherwise(F.col("old")).alias("row")).select("row.*")


def _wins(declaration: Declaration) -> Column:
    """Whether the new row is newer than the old one."""
    if not declaration.order:
        return F.lit(True)
    ours, theirs = (
        F.struct(*(F.col(f"{side}.{quoted(each)}") for each in declaration.order)) for side in ("new", "old")
    )
    later = ours >= theirs
    if declaration.origin is None:
        return later
    return later | F.col(f"new.{declaration.origin}").eqNullSafe(F.col(f"old.{declaration.origin}"))


def _out_of_bucket_folders(table: Path, folder: Path) -> tuple[DataFile, ...]:
    """Move files out of `_bucket=3/` folders, which readers would take for a partition column."""
    found = []
    for path in sorted(folder.glob(f"{_BUCKET}=*/*.parquet")):
        bucket = int(path.parent.name.partition("=")[2])
        target = folder / f"bucket-{bucket}-{path.name}"
        path.rename(target)
        found.append((bucket, target.relative_to(table).as_posix()))
    buckets = {path: bucket for bucket, path in found}
    return tuple(each._replace(bucket=buckets[each.path]) for each in parquet_files(table, folder))
