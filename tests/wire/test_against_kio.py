"""kio, an independent codec, reads our bytes as the values we wrote, and writes the same bytes."""

import io
from dataclasses import fields
from datetime import datetime, timedelta
from enum import IntEnum
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from penstock.schema.codec import decode, encode
from penstock.schema.words import Field, Message, Struct
from penstock.wire.apis import APIS
from penstock.wire.messages import metadata
from tests.wire.shapes import Special, any_of, messages, versions

EVERY_VERSION = [
    pytest.param(shape, version, id=f"{shape.__name__}-v{version}")
    for shape in messages()
    for version in versions(shape)
]

# kio gives some numbers a meaning, and takes only those that have one.
MEANINGFUL: dict[str, st.SearchStrategy[object]] = {
    "error_code": st.sampled_from([code.value for code in ErrorCode]),
    "timedelta_i64": st.integers(0, 2**40),
    "datetime_i64": st.integers(0, 2**47),
    "datetime_i64 or None": st.integers(-1, 2**47),
}


def kio_shape(shape: type[Message], version: int) -> Any:
    kind = "request" if shape.__name__.endswith("Request") else "response"
    return getattr(
        import_module(f"kio.schema.{APIS[shape.API_KEY].module}.v{version}.{kind}"), shape.__name__
    )


def element_type(annotation: Any) -> Any:
    """The type inside `X | None` and `tuple[X, ...]`."""
    if isinstance(annotation, UnionType):
        annotation = next(each for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) is tuple:
        annotation = get_args(annotation)[0]
    return annotation


@cache
def pairs(ours: type[Struct], theirs: Any, version: int) -> list[tuple[str, Field, Any]]:
    """Our fields beside kio's. Names differ a little (`max_wait` has no `_ms`), the order does not."""
    declared = [(name, field) for name, field in ours.FIELDS.items() if field.is_in(version)]
    assert len(declared) == len(fields(theirs))
    return [(name, field, other) for (name, field), other in zip(declared, fields(theirs), strict=True)]


def special(ours: type[Struct], theirs: Any, version: int) -> Special:
    """The values that kio can take for those fields to which it gives a meaning."""
    found: dict[tuple[type[Struct], str], st.SearchStrategy[object]] = {}
    for name, field, other in pairs(ours, theirs, version):
        if isinstance(field.type, type):
            found |= special(field.type, element_type(other.type), version)
        else:
            meaning = other.metadata["kafka_type"] + (" or None" if isinstance(other.type, UnionType) else "")
            if meaning in MEANINGFUL:
                found[ours, name] = MEANINGFUL[meaning]
    return found


def lift(ours: type[Struct], theirs: Any, version: int) -> Struct:
    """kio's value as one of ours."""
    lifted = ours()
    for name, field, other in pairs(ours, type(theirs), version):
        setattr(lifted, name, lift_value(field, getattr(theirs, other.name), version))
    return lifted


def lift_value(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, tuple):
        return [lift_value(field._replace(tag=None, is_array=False), each, version) for each in value]
    if field.is_array or isinstance(field.type, type):
        if value is None:
            return None
        lifted = lift(field.type, value, version)
        return None if field.tag is not None and lifted == field.type() else lifted
    return lift_primitive(field, value)


def lift_primitive(field: Field, value: Any) -> Any:
    match value:
        case None:
            # kio says None for the zero id and for the time -1.
            return {"uuid": bytes(16), "int64": -1}.get(field.type.name)
        case UUID():
            return value.bytes
        case IntEnum():
            return value.value
        case timedelta():
            return round(value.total_seconds() * 1000)
        case datetime():
            return round(value.timestamp() * 1000)
        case _:
            return value


def write(entity: Any) -> bytes:
    with io.BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


@pytest.mark.parametrize(("shape", "version"), EVERY_VERSION)
def test_kio_reads_what_we_write_and_writes_the_same(shape: type[Message], version: int) -> None:
    theirs = kio_shape(shape, version)

    @settings(max_examples=20, deadline=None, database=None)
    @given(any_of(shape, version, special(shape, theirs, version)))
    def check(message: Message) -> None:
        encoded = b"".join(encode(message, version))
        entity, size = entity_reader(theirs)(encoded, 0)
        assert size == len(encoded)
        assert lift(shape, entity, version) == message
        assert write(entity) == encoded
        assert decode(shape, version, write(entity)) == message

    check()


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("count", [126, 127, 128, 20_000])
def test_long_arrays_and_strings_have_the_lengths_that_kio_expects(version: int, count: int) -> None:
    replicas = list(range(count))
    topics = [metadata.MetadataResponseTopic(name="t" * min(count, 32767))] * count
    topics[0].partitions = [metadata.MetadataResponsePartition(replica_nodes=replicas)]
    message = metadata.MetadataResponse(topics=topics[:1] + [metadata.MetadataResponseTopic()] * (count - 1))
    encoded = b"".join(encode(message, version))
    entity, _ = entity_reader(kio_shape(metadata.MetadataResponse, version))(encoded, 0)
    assert write(entity) == encoded
    assert decode(metadata.MetadataResponse, version, encoded) == message
