"""Writes batches of a query to a table, each exactly once. On the driver.

    def write(rows, batch_id):
        write_batch(rows, batch_id, table)

    frame.writeStream.foreachBatch(write).option("checkpointLocation", ...).start()

The rows are written to new files with new names; then a new manifest adds these files and the batch's number to the
table, atomically. A batch that is repeated after a crash is either in the manifest, and is computed but not written, or
it is not; files that no manifest names are removed by the next writer. So a repeated batch may have other partitions.

One process writes to a table at a time, others wait. The warehouse is a folder that the driver and all tasks see under
the same path; object stores are not supported.
"""

import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.base.errors import UserError
from penstock.spark.tables.declaration import LATEST, Declaration, Table
from penstock.spark.tables.files import load, parquet_files
from penstock.spark.tables.folders import batch_folder, merged_folder, writers_folders
from penstock.spark.tables.locking import writing
from penstock.spark.tables.manifest import (
    DataFile,
    Manifest,
    Retired,
    read_manifest,
    replace_manifest,
)
from penstock.spark.tables.merging import DELETED, merge
from penstock.spark.tables.settings import (
    FILE_BYTES,
    RETIRED_KEEP_MS,
    SMALL_FILE_BYTES,
    SMALL_FILES_MAX,
)

_QUERY_PROPERTY: Final = "sql.streaming.queryId"


def write_batch(
    rows: DataFrame,
    batch_id: int,
    table: Table,
    *,
    query_id: str | None = None,
    rejected: DataFrame | None = None,
    offsets: Mapping[str, Mapping[str, int]] | None = None,
) -> bool:
    """Write a batch to a table, unless it was written already; returns whether it was written now.

    `query_id` is by default that of the streaming query in this process. `rejected` are rows to store beside the
    table, and `offsets` the next offsets of its topics after the batch, for `describe`.
    """
    query_id = query_id or _query_id(rows)
    with writing(table):
        manifest = read_manifest(table.folder)
        if manifest.has(query_id, batch_id):
            _compute(rows)
            return False
        _sweep(table, manifest)
        columns = _columns(rows, table.declaration)
        _check_columns(table, manifest, columns)
        attempt = batch_folder(batch_id)
        files, replaced = _store(rows, table, manifest, columns, attempt)
        bad = () if rejected is None else _store_rows(rejected, table, f"{attempt}-rejected")
        changed = replace(
            manifest,
            columns=columns,
            files=_without(manifest.files, replaced) + files,
            rejected=manifest.rejected + bad,
            applied=manifest.with_applied(query_id, batch_id),
            offsets={**manifest.offsets, **(offsets or {})},
        )
        manifest = _commit(table, changed, replaced)
        _compact(rows.sparkSession, table, manifest)
    return True


def _compute(rows: DataFrame) -> None:
    """Compute all rows and discard them: Spark fails a stateful query whose batch has not updated its state."""
    rows.write.format("noop").mode("overwrite").save()


def clear(table: Table) -> None:
    """Remove all rows and batch numbers, so that a query that starts from the beginning can fill the table again."""
    with writing(table):
        manifest = read_manifest(table.folder)
        emptied = Manifest(version=manifest.version, retired=manifest.retired)
        _commit(table, emptied, [*manifest.files, *manifest.rejected])


def _query_id(rows: DataFrame) -> str:
    try:
        found = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_PROPERTY)
    except Exception:  # a session of Spark Connect has no SparkContext
        found = None
    if not found:
        raise UserError(
            "write_batch does not know which query the batch is of: call it in foreachBatch, or give query_id, "
            "a name that stays with the query's checkpoint"
        )
    return found


# Columns.


def _columns(rows: DataFrame, declaration: Declaration) -> dict[str, Any]:
    schema: dict[str, Any] = _nullable(rows.drop(DELETED).schema.jsonValue())
    names = [each["name"] for each in schema["fields"]]
    missing = [each for each in (*declaration.keys, *declaration.order) if each not in names]
    if missing:
        raise UserError(f"the table's column {missing[0]} is not among the batch's: {', '.join(names)}")
    return schema


def _nullable(kind: Any) -> Any:
    """A type as in a table: nullable at every level, without metadata."""
    if isinstance(kind, list):
        return [_nullable(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    marks = {"nullable": True, "containsNull": True, "valueContainsNull": True, "metadata": {}}
    return {name: marks[name] if name in marks else _nullable(value) for name, value in kind.items()}


def _check_columns(table: Table, manifest: Manifest, columns: Mapping[str, Any]) -> None:
    if manifest.columns is None or manifest.columns == columns:
        return
    there, given = (StructType.fromJson(dict(each)) for each in (manifest.columns, columns))
    raise UserError(
        f"table {table.name} has the columns {there.simpleString()}, and the batch has {given.simpleString()}: "
        "a table's columns stay as they are; write to another one"
    )


# Writing rows to files.


def _store(
    rows: DataFrame, table: Table, manifest: Manifest, columns: Mapping[str, Any], attempt: str
) -> tuple[tuple[DataFile, ...], list[DataFile]]:
    """Write the batch; returns the new files, and those that they replace."""
    if table.declaration.kind == LATEST:
        return merge(rows, table, manifest, StructType.fromJson(dict(columns)), attempt)
    return _store_rows(rows, table, attempt), []


def _store_rows(rows: DataFrame, table: Table, attempt: str) -> tuple[DataFile, ...]:
    folder = table.folder / attempt
    rows.write.parquet(folder.as_uri())
    return parquet_files(table.folder, folder)


# Replacing the manifest.


def _without(files: Iterable[DataFile], gone: Iterable[DataFile]) -> tuple[DataFile, ...]:
    paths = {each.path for each in gone}
    return tuple(each for each in files if each.path not in paths)


def _commit(table: Table, changed: Manifest, replaced: Iterable[DataFile]) -> Manifest:
    """Replace the table's manifest, and remove files that were retired long enough ago."""
    now_ms = int(time.time() * 1000)
    keep_ms = table.settings[RETIRED_KEEP_MS]
    overdue = [each for each in changed.retired if now_ms - each.since_ms >= keep_ms]
    kept = [each for each in changed.retired if now_ms - each.since_ms < keep_ms]
    retired = (*kept, *(Retired(each.path, now_ms) for each in replaced))
    committed = replace(changed, version=changed.version + 1, retired=retired)
    replace_manifest(table.folder, committed)
    for each in overdue:
        (table.folder / each.path).unlink(missing_ok=True)
    return committed


def _sweep(table: Table, manifest: Manifest) -> None:
    """Remove the files of killed writers; the caller holds the lock."""
    paths = [each.path for each in (*manifest.files, *manifest.rejected)]
    paths += [each.path for each in manifest.retired]
    named = {path.split("/")[1] for path in paths}
    for path in list(writers_folders(table.folder)):
        if path.name not in named:
            shutil.rmtree(path)


def _compact(spark: SparkSession, table: Table, manifest: Manifest) -> None:
    """Merge small files if there are too many. In latest tables every bucket is one file anyway."""
    small = _small(table, manifest.files)
    if small:
        merged = _merged(spark, table, small)
        manifest = _commit(table, replace(manifest, files=_without(manifest.files, small) + merged), small)
    small = _small(table, manifest.rejected)
    if small:
        merged = _merged(spark, table, small)
        _commit(table, replace(manifest, rejected=_without(manifest.rejected, small) + merged), small)


def _small(table: Table, files: tuple[DataFile, ...]) -> list[DataFile]:
    """The files that are worth merging."""
    small_bytes = table.settings[SMALL_FILE_BYTES]
    small = [each for each in files if each.bytes_count < small_bytes and each.bucket is None]
    return small if len(small) > table.settings[SMALL_FILES_MAX] else []


def _merged(spark: SparkSession, table: Table, small: list[DataFile]) -> tuple[DataFile, ...]:
    count = -(-sum(each.bytes_count for each in small) // table.settings[FILE_BYTES])
    rows = load(spark, table.folder, small, None).coalesce(count)
    merged = _store_rows(rows, table, merged_folder())
    assert sum(each.rows for each in merged) == sum(each.rows for each in small), "merging changed the rows"
    return merged
