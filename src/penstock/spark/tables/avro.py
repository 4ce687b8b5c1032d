"""Avro's binary encoding, read with the schema it was written with. Pure.

Records of null, boolean, int, long, float, double, bytes, string, fixed, enum, array, map, nested records, and of any
of these or null; timestamps (millis, micros), dates and decimals as such. Left out: unions of several types, types that
contain themselves, reading with another schema than the writer's, and container files. A value may begin with the five
bytes that schema registries put in front (`framing` is "confluent"); the id in them is not looked up.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from struct import Struct
from typing import Any, Final, TypeAlias

from penstock.base.errors import SettingError
from penstock.spark.tables.ddl import array, field, mapping, struct

PLAIN: Final = "plain"
CONFLUENT: Final = "confluent"
FRAMINGS: Final = (PLAIN, CONFLUENT)

_ITEMS_MAX: Final = 1_000_000  # of one array or map: items without bytes could come for ever
_VARINT_BYTES_MAX: Final = 10
_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
_CONFLUENT_SIZE: Final = 5


class UndecodableError(Exception):
    """A value that is not what the schema says."""


class _Reader:
    """The bytes of one value, from front to back."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise UndecodableError(f"the value ends after {len(self._data)} bytes, in the middle of a field")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def long(self) -> int:
        number = shift = 0
        for _ in range(_VARINT_BYTES_MAX):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
        raise UndecodableError("a number takes more than ten bytes")

    def count(self) -> int:
        """How many items the next block of an array or map has."""
        number = self.long()
        if number < 0:  # then the block's size follows, for those who skip it
            self.long()
            number = -number
        return number

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self._data)


_Read: TypeAlias = Callable[[_Reader], Any]


class AvroDecoder:
    """Reads values of one record schema; `columns` are its fields as Spark's JSON has them."""

    def __init__(self, schema: Mapping[str, Any], *, framing: str = PLAIN) -> None:
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            raise SettingError("an Avro schema for a table is a record's")
        self.columns, self._read = _Compiler().record(schema, "")
        self._is_framed = framing == CONFLUENT

    def decode(self, value: bytes) -> dict[str, Any]:
        reader = _Reader(value)
        if self._is_framed and reader.take(_CONFLUENT_SIZE)[0] != 0:
            raise UndecodableError("the value does not begin with the five bytes of a schema registry")
        decoded: dict[str, Any] = self._read(reader)
        if not reader.is_at_end:
            raise UndecodableError(f"{len(value) - reader.position} bytes are left over behind the record")
        return decoded


class _Compiler:
    """From a schema to a type and a function that reads it."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, _Read]] = {}
        self._open: set[str] = set()

    def record(self, schema: Mapping[str, Any], namespace: str) -> tuple[dict[str, Any], _Read]:
        name, namespace = _full_name(schema, namespace)
        self._open.add(name)
        fields, readers = [], []
        for each in schema.get("fields", ()):
            kind, read = self.any(each["type"], namespace)
            fields.append(field(each["name"], kind))
            readers.append((each["name"], read))
        self._open.discard(name)

        def read_record(reader: _Reader) -> dict[str, Any]:
            return {name: read(reader) for name, read in readers}

        kind = struct(fields)
        self._named[name] = kind, read_record
        return kind, read_record

    def any(self, schema: Any, namespace: str) -> tuple[Any, _Read]:
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
        inner = self.any(kind, namespace)
        return _logical(schema, inner)

    def _by_name(self, name: str, namespace: str) -> tuple[Any, _Read]:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for each in (full, name):
            if each in self._open:
                raise SettingError(f"the Avro type {each} contains itself, which a table cannot")
            if each in self._named:
                return self._named[each]
        raise SettingError(f"the Avro type {name!r} is not known")

    def _optional(self, union: list[Any], namespace: str) -> tuple[Any, _Read]:
        others = [each for each in union if each != "null"]
        if len(others) != 1 or len(union) > 2:
            raise SettingError(f"the Avro union {union!r} is not of null and one other type")
        kind, read = self.any(others[0], namespace)
        branches = [None if each == "null" else read for each in union]

        def read_optional(reader: _Reader) -> Any:
            number = reader.long()
            if not 0 <= number < len(branches):
                raise UndecodableError(f"a union of {len(branches)} types has no number {number}")
            chosen = branches[number]
            return None if chosen is None else chosen(reader)

        return kind, read_optional

    def _enum(self, schema: Mapping[str, Any], namespace: str) -> tuple[Any, _Read]:
        name, _ = _full_name(schema, namespace)
        symbols = list(schema["symbols"])

        def read_enum(reader: _Reader) -> str:
            number = reader.long()
            if not 0 <= number < len(symbols):
                raise UndecodableError(f"the enum {name} has no number {number}")
            return str(symbols[number])

        self._named[name] = "string", read_enum
        return "string", read_enum

    def _fixed(self, schema: Mapping[str, Any], namespace: str) -> tuple[Any, _Read]:
        name, _ = _full_name(schema, namespace)
        size = int(schema["size"])
        self._named[name] = _logical(schema, ("binary", lambda reader: reader.take(size)))
        return self._named[name]

    def _array(self, schema: Mapping[str, Any], namespace: str) -> tuple[Any, _Read]:
        kind, read = self.any(schema["items"], namespace)

        def read_array(reader: _Reader) -> list[Any]:
            items: list[Any] = []
            while count := reader.count():
                if len(items) + count > _ITEMS_MAX:
                    raise UndecodableError(f"an array of more than {_ITEMS_MAX:,} items")
                items += [read(reader) for _ in range(count)]
            return items

        return array(kind), read_array

    def _map(self, schema: Mapping[str, Any], namespace: str) -> tuple[Any, _Read]:
        kind, read = self.any(schema["values"], namespace)

        def read_map(reader: _Reader) -> list[tuple[str, Any]]:
            items: dict[str, Any] = {}
            while count := reader.count():
                if len(items) + count > _ITEMS_MAX:
                    raise UndecodableError(f"a map of more than {_ITEMS_MAX:,} items")
                for _ in range(count):
                    key = _string(reader)
                    items[key] = read(reader)
            return list(items.items())  # as Arrow takes maps

        return mapping("string", kind), read_map


def _full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    name = str(schema.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(schema.get("namespace", namespace))
    return f"{space}.{name}" if space else name, space


def _boolean(reader: _Reader) -> bool:
    byte = reader.take(1)[0]
    if byte > 1:
        raise UndecodableError(f"a boolean cannot be {byte}")
    return byte == 1


def _integer(reader: _Reader, bits: int) -> int:
    number = reader.long()
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise UndecodableError(f"{number} does not fit {bits} bits")
    return number


def _string(reader: _Reader) -> str:
    try:
        return reader.take(reader.long()).decode()
    except UnicodeDecodeError:
        raise UndecodableError("a string is not UTF-8") from None


def _float(reader: _Reader) -> float:
    number: float = _FLOAT.unpack(reader.take(4))[0]
    return number


def _double(reader: _Reader) -> float:
    number: float = _DOUBLE.unpack(reader.take(8))[0]
    return number


_PRIMITIVES: Final[dict[str, tuple[Any, _Read]]] = {
    "null": ("string", lambda _: None),
    "boolean": ("boolean", _boolean),
    "int": ("integer", lambda reader: _integer(reader, 32)),
    "long": ("long", lambda reader: _integer(reader, 64)),
    "float": ("float", _float),
    "double": ("double", _double),
    "bytes": ("binary", lambda reader: reader.take(reader.long())),
    "string": ("string", _string),
}


def _logical(schema: Mapping[str, Any], inner: tuple[Any, _Read]) -> tuple[Any, _Read]:
    """What a type means, where that is known; else what it is."""
    kind, read = inner
    match (schema.get("logicalType"), kind):
        case ("timestamp-millis", "long"):
            return "timestamp", lambda reader: _moment(read(reader) * 1000)
        case ("timestamp-micros", "long"):
            return "timestamp", lambda reader: _moment(read(reader))
        case ("date", "integer"):
            return "date", lambda reader: _day(read(reader))
        case ("decimal", "binary"):
            precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
            if not 1 <= precision <= 38 or not 0 <= scale <= precision:
                raise SettingError(f"a table has no DECIMAL({precision}, {scale})")
            return f"decimal({precision},{scale})", lambda reader: _decimal(read(reader), precision, scale)
    return inner


def _moment(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise UndecodableError(f"{microseconds} microseconds are no time") from None


def _day(days: int) -> date:
    try:
        return _EPOCH_DAY + timedelta(days=days)
    except OverflowError:
        raise UndecodableError(f"{days} days are no date") from None


def _decimal(raw: bytes, precision: int, scale: int) -> Decimal:
    unscaled = int.from_bytes(raw, "big", signed=True)
    if abs(unscaled) >= 10**precision:
        raise UndecodableError(f"a decimal has more than {precision} digits")
    return Decimal(unscaled).scaleb(-scale)
