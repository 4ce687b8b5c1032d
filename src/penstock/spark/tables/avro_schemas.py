"""An Avro schema as a table's columns, and as the schema that `avro` gives to fastavro. Pure.

Understood are records of null, boolean, int, long, float, double, bytes, string, fixed, enum, array, map and nested
records, each also in a union with null. The logical types timestamp-millis, timestamp-micros, date and decimal become
the column types of that name; every other logical type is ignored, as the specification asks, and the column has the
underlying type. A table cannot have unions of several types, types that contain themselves, and arrays whose items take
no bytes: the number of such items would be limited by nothing.

fastavro's schema has the names of fields and symbols, and its own names for types. Logical types that the columns
ignore are left out of it, and four are added, which `avro` registers: they check booleans (a byte for fastavro), the
size of ints and the digits of decimals, and make maps the pairs that Arrow takes.
"""

import re
from collections.abc import Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from penstock.base.errors import SettingError
from penstock.spark.tables.ddl import array, field, mapping, struct

PLAIN: Final = "plain"
CONFLUENT: Final = "confluent"
FRAMINGS: Final = (PLAIN, CONFLUENT)

CHECKED_BOOLEAN: Final = "penstock-boolean"
CHECKED_INT: Final = "penstock-int"
CHECKED_DECIMAL: Final = "penstock-decimal"
MAP_PAIRS: Final = "penstock-pairs"

_SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AvroType(NamedTuple):
    """One type of a schema, in both worlds."""

    column: Any  # as Spark's JSON has it
    avro: Any  # for fastavro
    takes_bytes: bool = True


def read_avro_schema(schema: Any) -> AvroType:
    """Translates a record's schema; SettingError says why a table cannot have it."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise SettingError("a table's Avro schema has to be the schema of a record")
    return _Translator().record(schema, "")


_PRIMITIVES: Final = {
    "null": AvroType("string", "null", takes_bytes=False),
    "int": AvroType("integer", {"type": "int", "logicalType": CHECKED_INT}),
    "long": AvroType("long", "long"),
    "float": AvroType("float", "float"),
    "double": AvroType("double", "double"),
    "bytes": AvroType("binary", "bytes"),
    "string": AvroType("string", "string"),
}


class _Translator:
    """Translates one schema, with the named types that it has defined so far."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._unfinished: set[str] = set()
        self._numbers = count()

    def record(self, schema: Mapping[str, Any], namespace: str) -> AvroType:
        name, namespace = _full_name(schema, namespace)
        self._unfinished.add(name)
        fields = [
            (each["name"], self._translate(each["type"], namespace)) for each in schema.get("fields", ())
        ]
        self._unfinished.discard(name)
        column = struct([field(each, kind.column) for each, kind in fields])
        takes_bytes = any(kind.takes_bytes for _, kind in fields)
        avro = {"type": "record", "fields": [{"name": each, "type": kind.avro} for each, kind in fields]}
        return self._define(name, AvroType(column, avro, takes_bytes))

    def _translate(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, list):
            return self._optional(schema, namespace)
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        kind = schema.get("type") if isinstance(schema, Mapping) else None
        match kind:
            case "record":
                return self.record(schema, namespace)
            case "enum":
                return self._enum(schema, namespace)
            case "fixed":
                return self._fixed(schema, namespace)
            case "array":
                return self._array(schema, namespace)
            case "map":
                return self._map(schema, namespace)
            case None:
                raise SettingError(f"{schema!r} is no Avro type")
        return _logical(schema, self._translate(kind, namespace))

    def _define(self, name: str, kind: AvroType) -> AvroType:
        """Defines a type where it is written; later uses refer to it by name, as Avro wants it."""
        own_name = f"type_{next(self._numbers)}"
        self._named[name] = kind._replace(avro=own_name)
        return kind._replace(avro={**kind.avro, "name": own_name})

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace or name == "boolean" else f"{namespace}.{name}"
        for each in (full, name):
            if each in self._unfinished:
                raise SettingError(f"the Avro type {each} contains itself, which a table cannot")
            if each in self._named:
                return self._named[each]
        if name == "boolean":
            one_byte = {"type": "fixed", "size": 1, "logicalType": CHECKED_BOOLEAN}
            return self._define(name, AvroType("boolean", one_byte))
        raise SettingError(f"the Avro type {name!r} is not known")

    def _optional(self, union: list[Any], namespace: str) -> AvroType:
        others = [each for each in union if each != "null"]
        if len(others) != 1 or len(union) > 2:
            raise SettingError(f"the Avro union {union!r} is not of null and one other type")
        kind = self._translate(others[0], namespace)
        return AvroType(kind.column, ["null" if each == "null" else kind.avro for each in union])

    def _enum(self, schema: Mapping[str, Any], namespace: str) -> AvroType:
        name, _ = _full_name(schema, namespace)
        symbols = list(schema["symbols"])
        for symbol in symbols:
            if not isinstance(symbol, str) or not _SYMBOL.fullmatch(symbol):
                raise SettingError(f"the Avro enum {name} has a symbol {symbol!r}, which is no Avro name")
        return self._define(name, AvroType("string", {"type": "enum", "symbols": symbols}))

    def _fixed(self, schema: Mapping[str, Any], namespace: str) -> AvroType:
        name, _ = _full_name(schema, namespace)
        size = int(schema["size"])
        avro = {"type": "fixed", "size": size}
        return self._define(name, _logical(schema, AvroType("binary", avro, takes_bytes=size > 0)))

    def _array(self, schema: Mapping[str, Any], namespace: str) -> AvroType:
        items = self._translate(schema["items"], namespace)
        if not items.takes_bytes:
            raise SettingError(f"the Avro array of {schema['items']!r} has items that take no bytes")
        return AvroType(array(items.column), {"type": "array", "items": items.avro})

    def _map(self, schema: Mapping[str, Any], namespace: str) -> AvroType:
        values = self._translate(schema["values"], namespace)
        avro = {"type": "map", "values": values.avro, "logicalType": MAP_PAIRS}
        return AvroType(mapping("string", values.column), avro)


def _full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    name = str(schema.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(schema.get("namespace", namespace))
    return f"{space}.{name}" if space else name, space


def _logical(schema: Mapping[str, Any], underlying: AvroType) -> AvroType:
    match (schema.get("logicalType"), underlying.column):
        case ("timestamp-millis" | "timestamp-micros" as unit, "long"):
            return AvroType("timestamp", {"type": "long", "logicalType": unit})
        case ("date", "integer"):
            return AvroType("date", {"type": "int", "logicalType": "date"})
        case ("decimal", "binary"):
            return _decimal(schema, underlying)
    return underlying


def _decimal(schema: Mapping[str, Any], underlying: AvroType) -> AvroType:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise SettingError(f"a table cannot have a column of type DECIMAL({precision}, {scale})")
    raw = underlying.avro if isinstance(underlying.avro, dict) else {"type": underlying.avro}
    checked = {**raw, "logicalType": CHECKED_DECIMAL, "precision": precision, "scale": scale}
    return AvroType(f"decimal({precision},{scale})", checked, underlying.takes_bytes)
