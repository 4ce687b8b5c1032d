"""Schemas of a topic's values. Pure.

A schema is JSON in the table's declaration:

    {"kind": "plain", "value": "string" | "binary"}                 one column, value
    {"kind": "json", "columns": in Spark's JSON}
    {"kind": "avro", "schema": Avro's own JSON, "framing": "plain" | "confluent"}

and each has "key": "string" | "binary", the type of the column `_key`. After the schema's columns come those of every
topic's table: `_topic`, `_partition`, `_offset`, `_timestamp`, `_key`. Records that do not match are rejected, with the
reason.
"""

from collections.abc import Mapping
from typing import Any, Final

from penstock.base.errors import SettingError
from penstock.spark.tables.avro_schemas import read_avro_schema
from penstock.spark.tables.ddl import field, struct

JSON_KIND: Final = "json"
AVRO_KIND: Final = "avro"
PLAIN_KIND: Final = "plain"
SCHEMA_KINDS: Final = (JSON_KIND, AVRO_KIND, PLAIN_KIND)
TEXT: Final = "string"
BYTES: Final = "binary"

TOPIC_COLUMNS: Final = ("_topic", "_partition", "_offset", "_timestamp", "_key")
_RESERVED: Final = frozenset({*TOPIC_COLUMNS, "_deleted", "_bucket", "_rank"})


def value_columns(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a schema's values; SettingError if one has the name of a column of every topic's table."""
    match schema["kind"]:
        case "json":
            columns: dict[str, Any] = schema["columns"]
        case "avro":
            columns = read_avro_schema(schema["schema"]).column
        case _:
            columns = struct([field("value", schema["value"])])
    names = [each["name"].lower() for each in columns["fields"]]
    for name in names:
        if name in _RESERVED:
            raise SettingError(f"a table of a topic has a column {name} of its own: choose another name")
        if names.count(name) > 1:
            raise SettingError(f"there are two columns {name}, which Spark cannot tell apart")
    return columns
