"""Tables in Parquet that streaming queries write exactly once, and topics as such tables.

    folder of a table    `table.json` what it is, `manifest.json` which files it consists of now, `data/` the files,
                         `checkpoint/` of the query that feeds it from a topic

    declaration   what a table is; creating and finding tables
    settings      what can be set for a table
    manifest      the one file whose replacement makes a batch visible
    files         Parquet files, counted and read
    writing       `write_batch`, for foreachBatch
    merging       ... where there is one row per key
    reading       `read`, `register_view`: DataFrames and SQL
    querying      some rows without Spark; `conditions` are what they have to fulfil
    dropping      removing a table; `locking` keeps writers out

    topic_tables  a topic as a table: declaring one, and what its records look like
    ddl, inference, avro_schemas   columns as people write them, guessed from JSON, and of Avro schemas; pure
    avro          Avro's binary encoding, read by fastavro
    decoding      records as rows, and those that do not fit
    refreshing    `refresh`: the query from a topic into its table
    describing    how far a table has come

There are no partitions of tables, no changes of columns, and no object stores.

    table = ensure_table("tables", "requests_per_minute", keys=("endpoint", "minute"))
    frame.writeStream.outputMode("update").foreachBatch(lambda rows, batch_id: write_batch(rows, batch_id, table))

Names are taken from the modules when they are first asked for: listing tables needs no Spark.
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
