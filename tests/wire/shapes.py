"""Every message there is, and Hypothesis strategies that build any value of one in a given version."""

from collections.abc import Mapping
from types import MappingProxyType

from hypothesis import strategies as st

from penstock.schema.words import Field, FieldKind, Message, Struct
from penstock.wire.apis import APIS
from penstock.wire.messages import request_type, response_type

# Lengths up to 126 fit one byte in flexible versions; 200 needs two.
TEXT = st.one_of(st.text(max_size=6), st.just("x" * 200), st.just("é" * 100))

PRIMITIVES: dict[str, st.SearchStrategy[object]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": TEXT,
    "bytes": st.binary(max_size=6),
    "records": st.one_of(st.binary(max_size=6), st.just(bytes(300))),
}

# What a caller may know better about a field's values than its kind does.
Special = Mapping[tuple[type[Struct], str], st.SearchStrategy[object]]
NOTHING_SPECIAL: Special = MappingProxyType({})


def requests() -> list[type[Message]]:
    return [request_type(key) for key, api in APIS.items() if api.module is not None]


def messages() -> list[type[Message]]:
    return [shape for request in requests() for shape in (request, response_type(request.API_KEY))]


def versions(shape: type[Message]) -> range:
    return range(shape.VERSIONS[0], shape.VERSIONS[1] + 1)


def filled(shape: type[Struct], version: int) -> Struct:
    """A value with something in every field that the version has."""
    values: dict[str, object] = {}
    for name, field in shape.FIELDS.items():
        if not field.is_in(version):
            continue
        if isinstance(field.type, FieldKind):
            value: object = {
                "string": "abc",
                "bytes": b"abc",
                "records": b"abc",
                "uuid": bytes(range(16)),
            }.get(field.type.name, 1)
        else:
            value = filled(field.type, version)
        values[name] = [value, value] if field.is_array else value
    return shape(**values)


def any_of(
    shape: type[Struct], version: int, special: Special = NOTHING_SPECIAL
) -> st.SearchStrategy[Struct]:
    """Any value of a struct or message, with the fields that the version has."""
    fields = {
        name: special[shape, name] if (shape, name) in special else _any_field(field, version, special)
        for name, field in shape.FIELDS.items()
        if field.is_in(version)
    }
    return st.builds(shape, **fields)


def _any_field(field: Field, version: int, special: Special) -> st.SearchStrategy[object]:
    if isinstance(field.type, FieldKind):
        value = PRIMITIVES[field.type.name]
    else:
        value = any_of(field.type, version, special)
    if field.is_array:
        value = st.lists(value, max_size=2)
    elif not isinstance(field.type, FieldKind) and field.tag is not None:
        # A tagged struct that holds only defaults is not written, and reads as None.
        empty = field.type()
        return st.one_of(st.none(), value.filter(lambda struct: struct != empty))
    if field.is_nullable_in(version):
        return st.one_of(st.none(), value)
    return value
