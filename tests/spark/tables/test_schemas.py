"""Columns as people write them, guessed from JSON, and of Avro."""

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import SettingError, UserError
from penstock.spark.tables.avro import AvroDecoder, UndecodableError
from penstock.spark.tables.ddl import parse_columns, render_columns
from penstock.spark.tables.inference import infer_columns
from penstock.spark.tables.schemas import value_columns


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("id bigint, name STRING", "id BIGINT, name STRING"),
        ("a int,b INTEGER", "a INT, b INT"),
        ("price DECIMAL(12, 2), other decimal", "price DECIMAL(12,2), other DECIMAL(10,0)"),
        ("tags ARRAY<STRING>, m MAP<STRING, ARRAY<INT>>", "tags ARRAY<STRING>, m MAP<STRING, ARRAY<INT>>"),
        (
            "who STRUCT<first: STRING, last STRING>, at TIMESTAMP",
            "who STRUCT<first: STRING, last: STRING>, at TIMESTAMP",
        ),
        ("`odd name` DATE", "odd name DATE"),
    ],
)
def test_columns_are_understood_and_shown(written: str, shown: str) -> None:
    assert render_columns(parse_columns(written)) == shown


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "a column's name is expected, not the end"),
        ("id", "unknown type ''"),
        ("id BIGIN", "did you mean BIGINT"),
        ("id INT name STRING", "a comma is expected, not name"),
        ("a ARRAY<INT", "'>' is expected, not the end"),
        ("d DECIMAL(40)", "1 to 38 digits"),
        ("a INT; drop", "';' is not understood|is not understood"),
        ("a " + "ARRAY<" * 40 + "INT" + ">" * 40, "nested more than"),
    ],
)
def test_columns_that_make_no_sense_are_told_why(written: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        parse_columns(written)


def test_columns_that_every_topics_table_has_cannot_be_the_values() -> None:
    for columns, problem in (
        ("_offset INT", "a column _offset of its own"),
        ("a INT, A INT", "two columns a"),
    ):
        with pytest.raises(SettingError, match=problem):
            value_columns({"kind": "json", "columns": parse_columns(columns), "key": "string"})


def test_columns_are_guessed_from_what_values_have_in_common() -> None:
    values = [
        {"id": 1, "n": 1, "who": {"name": "a"}, "tags": [1], "mixed": 1, "never": None, "empty": {}},
        {"id": 2, "n": 2.5, "who": {"name": "b", "age": 3}, "tags": ["x"], "mixed": "text", "late": True},
    ]
    found = infer_columns([b"not json", b"[1]", *(json.dumps(each).encode() for each in values)])
    assert render_columns(found) == (
        "id BIGINT, n DOUBLE, who STRUCT<name: STRING, age: BIGINT>, tags ARRAY<STRING>, mixed STRING, "
        "never STRING, empty STRING, late BOOLEAN"
    )
    with pytest.raises(UserError, match="no JSON objects to guess columns from"):
        infer_columns([b"plain text"])


# Avro: an encoder of the tests' own, written from the specification.

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "weight", "type": "float"},
        {"name": "price", "type": "double"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "amounts", "type": {"type": "map", "values": "long"}},
        {
            "name": "who",
            "type": {"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]},
        },
        {"name": "friend", "type": ["null", "Person"]},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 3}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    ],
}


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while True:
        byte, zigzag = zigzag & 0x7F, (zigzag >> 7) & (2**57 - 1) if zigzag < 0 else zigzag >> 7
        if not zigzag:
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def text(value: str) -> bytes:
    raw = value.encode()
    return varint(len(raw)) + raw


def order(*, number: int, note: str | None = None, tags: tuple[str, ...] = ()) -> bytes:
    return b"".join(
        (
            varint(number),
            varint(-7),
            b"\x01",
            struct.pack("<f", 1.5),
            struct.pack("<d", -2.25),
            varint(0) if note is None else varint(1) + text(note),
            varint(2) + b"\x00\xff",
            varint(1),
            (varint(len(tags)) + b"".join(map(text, tags)) if tags else b"") + varint(0),
            varint(-1) + varint(5) + text("a") + varint(3) + varint(0),  # a block that says its size
            text("Ada"),
            varint(1) + text("Bob"),
            b"abc",
            varint(1_700_000_000_123),
            varint(19_000),
            varint(2) + (-1234).to_bytes(2, "big", signed=True),
        )
    )


def test_avro_values_are_read() -> None:
    decoder = AvroDecoder(SCHEMA)
    assert render_columns(decoder.columns) == (
        "id BIGINT, count INT, paid BOOLEAN, weight FLOAT, price DOUBLE, note STRING, raw BINARY, state STRING, "
        "tags ARRAY<STRING>, amounts MAP<STRING, BIGINT>, who STRUCT<name: STRING>, friend STRUCT<name: STRING>, "
        "code BINARY, at TIMESTAMP, day DATE, sum DECIMAL(6,2)"
    )
    assert decoder.decode(order(number=2**40, note="é", tags=("x", "y"))) == {
        "id": 2**40,
        "count": -7,
        "paid": True,
        "weight": 1.5,
        "price": -2.25,
        "note": "é",
        "raw": b"\x00\xff",
        "state": "DONE",
        "tags": ["x", "y"],
        "amounts": [("a", 3)],
        "who": {"name": "Ada"},
        "friend": {"name": "Bob"},
        "code": b"abc",
        "at": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "day": date(2022, 1, 8),
        "sum": Decimal("-12.34"),
    }


def test_avro_values_behind_a_registrys_five_bytes_are_read() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    decoder = AvroDecoder(schema, framing="confluent")
    assert decoder.decode(b"\x00\x00\x00\x00\x2a" + varint(5)) == {"n": 5}
    with pytest.raises(UndecodableError, match="five bytes"):
        decoder.decode(b"\x07\x00\x00\x00\x2a" + varint(5))


@given(st.integers(-(2**63), 2**63 - 1))
def test_avro_numbers_of_all_sizes_are_read(number: int) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    assert AvroDecoder(schema).decode(varint(number)) == {"n": number}


@given(st.binary(max_size=80))
def test_noise_is_refused_or_read_but_nothing_else_happens(noise: bytes) -> None:
    try:
        AvroDecoder(SCHEMA).decode(noise)
    except UndecodableError:
        return


@given(st.integers(0, 200))
def test_a_value_that_is_cut_is_refused(size: int) -> None:
    whole = order(number=1, note="text", tags=("a",))
    if size < len(whole):
        with pytest.raises(UndecodableError):
            AvroDecoder(SCHEMA).decode(whole[:size])


def test_more_than_a_value_is_refused() -> None:
    with pytest.raises(UndecodableError, match="2 bytes are left over"):
        AvroDecoder(SCHEMA).decode(order(number=1) + b"xx")


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        (["null", "string", "long"], "not of null and one other type"),
        ("Unknown", "'Unknown' is not known"),
        ("R", "R contains itself"),
        ({"type": "array", "items": 5}, "5 is no Avro type"),
        ({"type": "array", "items": "null"}, "items that take no bytes"),
        (
            {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
            "items that take no bytes",
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "B C"]}, "'B C', which is no Avro name"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, r"DECIMAL\(40, 0\)"),
    ],
)
def test_avro_schemas_that_no_table_can_have_are_refused(field: Any, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        AvroDecoder({"type": "record", "name": "R", "fields": [{"name": "f", "type": field}]})


def record_of(kind: Any) -> AvroDecoder:
    return AvroDecoder({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]})


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("boolean", b"\x02", "a boolean cannot be 2"),
        ("int", varint(2**31), "2147483648 does not fit 32 bits"),
        ("string", varint(2) + b"\xff\xff", "a string is not UTF-8"),
        ("string", varint(-3) + b"abc", "in the middle of a field"),
        ("bytes", varint(2**62), "in the middle of a field"),
        ({"type": "array", "items": "long"}, varint(2**62) + varint(1), "in the middle of a field"),
        (["null", "long"], varint(2) + varint(5), "a union has no branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, varint(1), "an enum no symbol"),
        ({"type": "int", "logicalType": "date"}, varint(2**30), "a date or timestamp is out of range"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            varint(2**62),
            "a date or timestamp is out of range",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            varint(1) + b"\x64",
            "more than 2 digits",
        ),
    ],
)
def test_values_that_the_schema_does_not_describe_are_rejected_with_the_reason(
    kind: Any, value: bytes, problem: str
) -> None:
    with pytest.raises(UndecodableError, match=problem):
        record_of(kind).decode(value)


@pytest.mark.parametrize(
    ("kind", "column", "value", "decoded"),
    [
        ({"type": "int", "logicalType": "time-millis"}, "INT", varint(5), 5),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "BIGINT", varint(5), 5),
        ({"type": "string", "logicalType": "uuid"}, "STRING", text("not a uuid"), "not a uuid"),
        ({"type": "long", "logicalType": "date"}, "BIGINT", varint(5), 5),
        (
            {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 4},
            "DECIMAL(4,4)",
            b"\xff\xfe",
            Decimal("-0.0002"),
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            "TIMESTAMP",
            varint(-1),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ),
        (["string", "null"], "STRING", varint(1), None),
        ("null", "STRING", b"", None),
    ],
)
def test_logical_types_that_a_table_has_are_decoded_and_the_others_are_ignored(
    kind: Any, column: str, value: bytes, decoded: Any
) -> None:
    decoder = record_of(kind)
    assert render_columns(decoder.columns) == f"f {column}"
    assert decoder.decode(value) == {"f": decoded}
    assert type(decoder.decode(value)["f"]) is type(decoded)


def test_a_type_that_is_used_twice_is_defined_once() -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "ok", "type": "boolean"}]}
    decoder = record_of({"type": "map", "values": item})
    assert decoder.decode(varint(1) + text("a") + b"\x01" + varint(0)) == {"f": [("a", {"ok": True})]}
    fields = [
        {"name": "first", "type": item},
        {"name": "second", "type": "Item"},
        {"name": "ok", "type": "boolean"},
    ]
    twice = AvroDecoder({"type": "record", "name": "R", "fields": fields})
    assert twice.decode(b"\x01\x00\x01") == {"first": {"ok": True}, "second": {"ok": False}, "ok": True}
