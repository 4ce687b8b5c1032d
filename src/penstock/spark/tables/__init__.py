"""Tables in Parquet that streaming queries write exactly once, and topics as such tables.

    folder of a table    `table.json` its declaration, `manifest.json` the list of its current files, `data/` the files,
                         `checkpoint/` of the query that feeds it from a topic

    declaration   a table's kind, keys and source; creating and finding tables
    settings      the settings of a table
    manifest      the file whose replacement makes a batch visible
    files         Parquet files: rows counted, and read
    writing       `write_batch`, for foreachBatch
    merging       ... for tables with one row per key
    reading       `read`, `register_view`: DataFrames and SQL
    querying      queries without Spark; `conditions` parses --where
    dropping      removing a table; `locking`: one writer at a time

    topic_tables  a topic as a table: its declaration and schema
    ddl, inference, avro_schemas   columns from DDL text, inferred from JSON, and from Avro schemas; pure
    avro          Avro's binary encoding, read by fastavro
    decoding      records as rows, and rejected records
    refreshing    `refresh`: the query from a topic into its table
    describing    a table's rows, files, offsets and lag

There are no partitions of tables, no changes of columns, and no object stores.

    table = ensure_table("tables", "requests_per_minute", keys=("endpoint", "minute"))
    frame.writeStream.outputMode("update").foreachBatch(lambda rows, batch_id: write_batch(rows, batch_id, table))

Modules are imported when a name is first used: listing tables needs no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spark.tables.declaration import (
        APPEND,
        LATEST,
        Declaration,
        Table,
        create_table,
        ensure_table,
        open_table,
        table_names,
    )
    from penstock.spark.tables.merging import DELETED
    from penstock.spark.tables.reading import read, read_rejected, register_view
    from penstock.spark.tables.refreshing import refresh
    from penstock.spark.tables.topic_tables import create_topic_table
    from penstock.spark.tables.writing import clear, write_batch

__all__ = [
    "APPEND",
    "DELETED",
    "LATEST",
    "Declaration",
    "Table",
    "clear",
    "create_table",
    "create_topic_table",
    "ensure_table",
    "open_table",
    "read",
    "read_rejected",
    "refresh",
    "register_view",
    "table_names",
    "write_batch",
]

_MODULES = {
    "DELETED": "merging",
    "clear": "writing",
    "create_topic_table": "topic_tables",
    "read": "reading",
    "read_rejected": "reading",
    "refresh": "refreshing",
    "register_view": "reading",
    "write_batch": "writing",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'declaration')}"), name)
