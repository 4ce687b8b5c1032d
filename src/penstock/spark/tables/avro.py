"""Values in Avro's binary encoding, read by fastavro with the schema that they were written with.

A value may begin with the five bytes of a schema registry (`framing` is "confluent"); the schema id in them is not
looked up. Left out: reading with another schema than the writer's, and container files.

fastavro reads some values that the specification does not allow. Rejected here are booleans above 1, ints of more
than 32 bits, which Arrow would not take, and decimals with too many digits, which fastavro would round. Accepted are
negative numbers of a union's branch and an enum's symbol, which count from the end, and numbers of more than ten bytes,
which are cut to 64 bits.
"""

from collections.abc import Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.read import LOGICAL_READERS

from penstock.spark.tables.avro_schemas import (
    CHECKED_BOOLEAN,
    CHECKED_DECIMAL,
    CHECKED_INT,
    CONFLUENT,
    MAP_PAIRS,
    PLAIN,
    read_avro_schema,
)

_CONFLUENT_SIZE: Final = 5
_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1


class UndecodableError(Exception):
    """A value that does not match the schema."""


class AvroDecoder:
    """Reads values of one record schema; `columns` are its fields as Spark's JSON has them."""

    def __init__(self, schema: Mapping[str, Any], *, framing: str = PLAIN) -> None:
        translated = read_avro_schema(schema)
        self.columns: dict[str, Any] = translated.column
        self._schema = fastavro.parse_schema(translated.avro)
        self._prefix_size = _CONFLUENT_SIZE if framing == CONFLUENT else 0

    def decode(self, value: bytes) -> dict[str, Any]:
        if self._prefix_size and (len(value) < self._prefix_size or value[0] != 0):
            raise UndecodableError("the value does not begin with the five bytes of a schema registry")
        stream = BytesIO(value)
        stream.seek(self._prefix_size)
        try:
            decoded: dict[str, Any] = fastavro.schemaless_reader(stream, self._schema, None)  # type: ignore[assignment]
        except EOFError:
            raise UndecodableError(
                f"the value ends after {len(value)} bytes, in the middle of a field"
            ) from None
        except UnicodeDecodeError:
            raise UndecodableError("a string is not UTF-8") from None
        except IndexError:
            raise UndecodableError("a union has no branch, or an enum no symbol, of this number") from None
        except (ValueError, OverflowError) as error:
            raise UndecodableError(f"a date or timestamp is out of range: {error}") from None
        if stream.tell() != len(value):
            raise UndecodableError(f"{len(value) - stream.tell()} bytes are left over behind the record")
        return decoded


def _checked_boolean(raw: bytes, *_: Any) -> bool:
    if raw == b"\x01":
        return True
    if raw == b"\x00":
        return False
    raise UndecodableError(f"a boolean cannot be {raw[0]}")


def _checked_int(number: int, *_: Any) -> int:
    if not _INT_MIN <= number <= _INT_MAX:
        raise UndecodableError(f"{number} does not fit 32 bits")
    return number


def _checked_decimal(raw: bytes, schema: Any, *_: Any) -> Decimal:
    unscaled = int.from_bytes(raw, "big", signed=True)
    if abs(unscaled) >= 10 ** schema["precision"]:
        raise UndecodableError(f"a decimal has more than {schema['precision']} digits")
    return Decimal(unscaled).scaleb(-schema["scale"])


def _pairs(items: dict[str, Any], *_: Any) -> list[tuple[str, Any]]:
    return list(items.items())


# fastavro looks logical types up by the underlying type and the name, for all of a process's schemas; ours have names
# that no other schema has.
LOGICAL_READERS[f"fixed-{CHECKED_BOOLEAN}"] = _checked_boolean
LOGICAL_READERS[f"int-{CHECKED_INT}"] = _checked_int
LOGICAL_READERS[f"bytes-{CHECKED_DECIMAL}"] = _checked_decimal
LOGICAL_READERS[f"fixed-{CHECKED_DECIMAL}"] = _checked_decimal
LOGICAL_READERS[f"map-{MAP_PAIRS}"] = _pairs
