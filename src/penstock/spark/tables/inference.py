"""Infers columns from JSON values. Pure.

Whole numbers become BIGINT, other numbers DOUBLE; values of different types, or always null, become STRING.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from penstock.base.errors import UserError
from penstock.spark.tables.ddl import array, field, struct

_UNKNOWN: Final = "void"
_LONG_MAX: Final = 2**63 - 1


def infer_columns(values: Iterable[bytes]) -> dict[str, Any]:
    """The columns of these JSON objects; UserError if none of the values is an object."""
    found: Any = None
    for value in values:
        try:
            content = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict) and content:
            kind = _kind(content)
            found = kind if found is None else _both(found, kind)
    if found is None:
        raise UserError(
            "the topic has no JSON objects to guess columns from: name them, as in --schema 'id BIGINT, name STRING'"
        )
    settled: dict[str, Any] = _settled(found)
    return settled


def _kind(value: Any) -> Any:
    match value:
        case None:
            return _UNKNOWN
        case bool():
            return "boolean"
        case int():
            return "long" if abs(value) <= _LONG_MAX else "double"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            element: Any = _UNKNOWN
            for each in value:
                element = _both(element, _kind(each))
            return array(element)
        case _:
            return struct([field(name, _kind(each)) for name, each in value.items()])


def _both(left: Any, right: Any) -> Any:
    """A type that values of either fit."""
    if left == right or right == _UNKNOWN:
        return left
    if left == _UNKNOWN:
        return right
    if {str(left), str(right)} == {"long", "double"}:
        return "double"
    if isinstance(left, dict) and isinstance(right, dict) and left["type"] == right["type"]:
        if left["type"] == "array":
            return array(_both(left["elementType"], right["elementType"]))
        kinds = {each["name"]: each["type"] for each in left["fields"]}
        for each in right["fields"]:
            kinds[each["name"]] = _both(kinds.get(each["name"], _UNKNOWN), each["type"])
        return struct([field(name, kind) for name, kind in kinds.items()])
    return "string"


def _settled(kind: Any) -> Any:
    if kind == _UNKNOWN:
        return "string"
    if isinstance(kind, dict) and kind["type"] == "array":
        return array(_settled(kind["elementType"]))
    if isinstance(kind, dict):
        fields = [field(each["name"], _settled(each["type"])) for each in kind["fields"]]
        return struct(fields) if fields else "string"
    return kind
