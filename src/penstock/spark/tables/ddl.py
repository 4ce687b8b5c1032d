"""Converts columns between DDL text, `id BIGINT, tags ARRAY<STRING>`, and Spark's JSON. Pure, without Spark, so that
creating a table is fast.

Known are Spark's usual types, DECIMAL, ARRAY, MAP and STRUCT; intervals, comments, defaults and NOT NULL are left out:
every column of a table may be null.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.base.errors import SettingError
from penstock.base.settings import unknown_name

_SIMPLE: Final = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "BYTE": "byte",
    "SMALLINT": "short",
    "SHORT": "short",
    "INT": "integer",
    "INTEGER": "integer",
    "BIGINT": "long",
    "LONG": "long",
    "FLOAT": "float",
    "REAL": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NTZ": "timestamp_ntz",
}
_WORDS: Final = {spark: word for word, spark in reversed(_SIMPLE.items())}
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>(),:])")
_DEPTH_MAX: Final = 32


def field(name: str, kind: Any) -> dict[str, Any]:
    """A column, or a part of one, in Spark's JSON."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "struct", "fields": fields}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def parse_columns(text: str) -> dict[str, Any]:
    """Columns in Spark's JSON; SettingError if the text cannot be parsed."""
    parser = _Parser(text)
    return struct(parser.fields(end=None, colon=False))


def render_type(kind: Any) -> str:
    """A type as DDL text."""
    if isinstance(kind, str):
        return _WORDS.get(kind, kind.upper())
    match kind["type"]:
        case "struct":
            inner = ", ".join(f"{each['name']}: {render_type(each['type'])}" for each in kind["fields"])
            return f"STRUCT<{inner}>"
        case "array":
            return f"ARRAY<{render_type(kind['elementType'])}>"
        case _:
            return f"MAP<{render_type(kind['keyType'])}, {render_type(kind['valueType'])}>"


def render_columns(columns: Mapping[str, Any]) -> str:
    return ", ".join(f"{each['name']} {render_type(each['type'])}" for each in columns["fields"])


class _Parser:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def error(self, problem: str) -> SettingError:
        return SettingError(f"a schema cannot be {self._text!r}: {problem}")

    def fields(self, *, end: str | None, colon: bool) -> list[dict[str, Any]]:
        found = []
        while True:
            name = self._name()
            if colon and self._peek() == ":":
                self._next()
            found.append(field(name, self._type()))
            following = self._peek()
            if following == end:
                return found
            if following != ",":
                raise self.error(f"after column {name} a comma is expected, not {following or 'the end'}")
            self._next()

    def _name(self) -> str:
        token = self._next()
        if token[:1] == "`":
            return token[1:-1].replace("``", "`")
        if not token.replace("_", "a").isalnum():
            raise self.error(f"a column's name is expected, not {token or 'the end'}")
        return token

    def _type(self) -> Any:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self.error(f"types are nested more than {_DEPTH_MAX} deep")
        word = self._next().upper()
        kind: Any
        if word in ("DECIMAL", "DEC", "NUMERIC"):
            kind = self._decimal()
        elif word == "ARRAY":
            self._expect("<")
            kind = array(self._type())
            self._expect(">")
        elif word == "MAP":
            self._expect("<")
            key = self._type()
            self._expect(",")
            kind = mapping(key, self._type())
            self._expect(">")
        elif word == "STRUCT":
            self._expect("<")
            kind = struct(self.fields(end=">", colon=True))
            self._expect(">")
        elif word in _SIMPLE:
            kind = _SIMPLE[word]
        else:
            raise self.error(str(unknown_name("type", word, [*_SIMPLE, "DECIMAL", "ARRAY", "MAP", "STRUCT"])))
        self._depth -= 1
        return kind

    def _decimal(self) -> str:
        if self._peek() != "(":
            return "decimal(10,0)"
        self._next()
        precision, scale = self._number(), 0
        if self._peek() == ",":
            self._next()
            scale = self._number()
        self._expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            raise self.error("a DECIMAL has 1 to 38 digits, and no more of them behind the point")
        return f"decimal({precision},{scale})"

    def _number(self) -> int:
        token = self._next()
        if not token.isdecimal():
            raise self.error(f"a number is expected, not {token or 'the end'}")
        return int(token)

    def _expect(self, wanted: str) -> None:
        token = self._next()
        if token != wanted:
            raise self.error(f"{wanted!r} is expected, not {token or 'the end'}")

    def _peek(self) -> str | None:
        found = _TOKEN.match(self._text, self._position)
        if found is not None:
            return found[1]
        rest = self._text[self._position :].strip()
        if rest:
            raise self.error(f"{rest[:20]!r} is not understood")
        return None

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._position)
        if found is None:
            self._peek()
            return ""
        self._position = found.end()
        return found[1]
