"""Decodes records of a topic into rows of its table, and rejects those that do not match its schema. On the driver, and
in tasks."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.column import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from penstock.spark.tables.avro import AvroDecoder, UndecodableError
from penstock.spark.tables.avro_schemas import PLAIN
from penstock.spark.tables.merging import DELETED
from penstock.spark.tables.schemas import BYTES, TEXT, value_columns

_MISFIT: Final = "_misfit"
_REASON: Final = "_reason"
_ROW: Final = "_row"
_REASON_CHARACTERS_MAX: Final = 300


class Decoded(NamedTuple):
    """Records, decoded."""

    rows: DataFrame
    rejected: DataFrame
    persisted: (
        DataFrame  # the source of both, cached so that values are decoded once; the caller unpersists it
    )


def decode(records: DataFrame, schema: Mapping[str, Any], *, keyed: bool) -> Decoded:
    """Decode the records of `format("penstock")` into rows; `keyed` tables reject records without a key."""
    row, misfit = _value(schema)
    with_row = records.withColumn(_ROW, row).withColumn(
        _REASON, F.coalesce(_key_misfit(schema, keyed), misfit)
    )
    decoded = with_row.persist()
    key = F.col("key").cast(TEXT) if schema["key"] == TEXT else F.col("key")
    origin = [
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    ]
    names = [each["name"] for each in value_columns(schema)["fields"]]
    values = [F.col(_ROW)[name].alias(name) for name in names]
    deleted = [F.col("value").isNull().alias(DELETED)] if keyed else []
    rows = decoded.where(F.col(_REASON).isNull()).select(*values, *origin, key.alias("_key"), *deleted)
    rejected = decoded.where(F.col(_REASON).isNotNull()).select(
        *origin,
        F.col("key").alias("_key"),
        F.col("value").alias("_value"),
        F.substring(F.col(_REASON), 1, _REASON_CHARACTERS_MAX).alias("reason"),
    )
    return Decoded(rows, rejected, decoded)


def _key_misfit(schema: Mapping[str, Any], keyed: bool) -> Column:
    reason = F.lit(None).cast(TEXT)
    if schema["key"] == TEXT:
        reason = F.when(_is_not_text("key"), F.lit("the key is not UTF-8"))
    if keyed:
        reason = F.when(F.col("key").isNull(), F.lit("the record has no key")).otherwise(reason)
    return reason


def _is_not_text(name: str) -> Column:
    return F.col(name).isNotNull() & ~F.is_valid_utf8(F.col(name).cast(TEXT))


def _value(schema: Mapping[str, Any]) -> tuple[Column, Column]:
    """The value as a struct of the schema's columns, and the reason for a rejection, or null."""
    match schema["kind"]:
        case "json":
            return _json_value(schema)
        case "avro":
            return _avro_value(schema)
        case _:
            return _plain_value(schema)


def _plain_value(schema: Mapping[str, Any]) -> tuple[Column, Column]:
    if schema["value"] == BYTES:
        return F.struct(F.col("value")), F.lit(None).cast(TEXT)
    misfit = F.when(_is_not_text("value"), F.lit("the value is not UTF-8"))
    return F.struct(F.col("value").cast(TEXT).alias("value")), misfit


def _json_value(schema: Mapping[str, Any]) -> tuple[Column, Column]:
    columns = StructType.fromJson(dict(schema["columns"]))
    with_misfit = StructType([*columns.fields, StructField(_MISFIT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _MISFIT}
    row = F.from_json(F.col("value").cast(TEXT), with_misfit, options)
    there = F.col("value").isNotNull()
    misfit = (
        F.when(_is_not_text("value"), F.lit("the value is not UTF-8"))
        .when(
            there & ~F.ltrim(F.col("value").cast(TEXT)).startswith("{"), F.lit("the value is no JSON object")
        )
        .when(
            there & (row.isNull() | row[_MISFIT].isNotNull()),
            F.lit("the value is no JSON that fits the table's columns"),
        )
    )
    return row, misfit


def _avro_value(schema: Mapping[str, Any]) -> tuple[Column, Column]:
    columns = StructType.fromJson(value_columns(schema))
    kind = StructType([*columns.fields, StructField(_MISFIT, StringType())])
    arrow_kind = to_arrow_type(kind, timezone="UTC")
    given = dict(schema)

    def decode_values(values: pa.Array) -> pa.Array:
        decoder = AvroDecoder(given["schema"], framing=given.get("framing", PLAIN))
        return pa.array([_decoded(decoder, each.as_py()) for each in values], arrow_kind)

    # Spark infers the kind of function from the type hints; its own type stubs do not allow for that.
    make: Any = arrow_udf
    row = make(decode_values, kind)(F.col("value"))
    return row, row[_MISFIT]


def _decoded(decoder: AvroDecoder, value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        return decoder.decode(value)
    except UndecodableError as problem:
        return {_MISFIT: f"the value is not of the table's Avro schema: {problem}"}
