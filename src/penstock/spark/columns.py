"""The columns of the source, and records as Arrow batches. On the driver and in tasks.

The columns are those of Spark's own Kafka source. A schema that the user gives selects some of them: Spark does not
tell a Python source which columns a query needs, so this is the way to leave the others out.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.base.buffers import Buffer
from penstock.base.errors import SettingError
from penstock.base.ids import TopicPartition
from penstock.base.settings import unknown_name
from penstock.records.batch import BatchHeader
from penstock.records.columns import BinaryColumn, ColumnReader, HeaderColumn, RecordColumns

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

# An Arrow batch is emitted when it has this many rows or bytes.
_ROWS_MAX: Final = 20_000
_BYTES_MAX: Final = 3 << 19

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_FIELDS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_HEADERS: Final = StructField("headers", ArrayType(_HEADER))


def schema_of(*, include_headers: bool) -> StructType:
    """The columns of a read."""
    return StructType([*_FIELDS, _HEADERS] if include_headers else list(_FIELDS))


def check_schema(schema: StructType) -> None:
    """Raise SettingError if a user's schema has an unknown column or another type."""
    known = {field.name: field.dataType for field in (*_FIELDS, _HEADERS)}
    for field in schema.fields:
        kind = known.get(field.name)
        if kind is None:
            raise unknown_name("column", field.name, known)
        if field.dataType.simpleString() != kind.simpleString():
            raise SettingError(
                f"column {field.name} is {kind.simpleString()}, not {field.dataType.simpleString()}: "
                "cast it after reading"
            )


class ArrowColumns:
    """Turns the rows of one partition into Arrow batches with the columns of a schema."""

    def __init__(self, schema: StructType, partition: TopicPartition) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._partition = partition
        names = set(schema.names)
        self.wants_keys = "key" in names
        self.wants_values = "value" in names
        self.wants_headers = "headers" in names

    def batch(self, rows: RecordColumns, *, timestamp_type: int) -> pa.RecordBatch:
        arrays = [self._array(field, rows, timestamp_type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: pa.Field, rows: RecordColumns, timestamp_type: int) -> pa.Array:
        count = rows.row_count
        match field.name:
            case "key":
                return _binary(field.type, count, rows.keys)
            case "value":
                return _binary(field.type, count, rows.values)
            case "topic":
                return _repeated(self._partition.topic, field.type, count)
            case "partition":
                return _repeated(self._partition.partition, field.type, count)
            case "offset":
                return _numbers(field.type, count, rows.offsets)
            case "timestamp":
                return _numbers(field.type, count, rows.timestamps_us)
            case "timestampType":
                return _repeated(timestamp_type, field.type, count)
            case "headers":
                return _headers(field.type, count, rows.headers)
            case name:
                raise AssertionError(f"column {name} was checked before")


class Gathering:
    """Collects the records of one range into Arrow batches of a good size."""

    def __init__(
        self,
        schema: StructType,
        partition: TopicPartition,
        *,
        start: int,
        end: int,
        decompressed_bytes_max: int,
    ) -> None:
        self._arrow = ArrowColumns(schema, partition)
        self._reader = ColumnReader(
            keys=self._arrow.wants_keys, values=self._arrow.wants_values, headers=self._arrow.wants_headers
        )
        self._start, self._end = start, end
        self._decompressed_bytes_max = decompressed_bytes_max
        self._timestamp_type = CREATE_TIME

    def add(self, batch: Buffer, header: BatchHeader) -> Iterator[pa.RecordBatch]:
        """Add a record batch; yields the collected ones first if they are enough, or have another layout."""
        kind = LOG_APPEND_TIME if header.log_append_time else CREATE_TIME
        full = self._reader.count >= _ROWS_MAX or self._reader.bytes_count >= _BYTES_MAX
        if full or kind != self._timestamp_type:
            yield from self.rest()
        self._timestamp_type = kind
        self._reader.add(
            batch,
            header,
            from_offset=self._start,
            until_offset=self._end,
            bytes_max=self._decompressed_bytes_max,
        )

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The Arrow batch of the collected records."""
        if self._reader.count:
            yield self._arrow.batch(self._reader.take(), timestamp_type=self._timestamp_type)


@lru_cache(maxsize=64)
def _repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    """The same array serves every batch of that many rows."""
    return pa.repeat(pa.scalar(value, kind), count)


def _numbers(kind: pa.DataType, count: int, buffer: Buffer) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(buffer)])


def _binary(kind: pa.DataType, count: int, column: BinaryColumn | None) -> pa.Array:
    assert column is not None, "the reader was not told that this column is wanted"
    return pa.Array.from_buffers(kind, count, _buffers(column))


def _buffers(column: BinaryColumn) -> list[pa.Buffer | None]:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    return [validity, pa.py_buffer(column.ends), pa.py_buffer(column.data)]


def _headers(kind: pa.DataType, count: int, column: HeaderColumn | None) -> pa.Array:
    assert column is not None, "the reader was not told that this column is wanted"
    struct: Any = kind.value_type
    header_count = len(memoryview(column.keys.ends)) // 4 - 1
    keys = pa.Array.from_buffers(struct.field(0).type, header_count, _buffers(column.keys))
    values = pa.Array.from_buffers(struct.field(1).type, header_count, _buffers(column.values))
    pairs = pa.StructArray.from_buffers(struct, header_count, [None], children=[keys, values])
    ends = pa.py_buffer(column.ends)
    return pa.Array.from_buffers(kind, count, [_has_some(ends, count), ends], children=[pairs])


def _has_some(ends: pa.Buffer, count: int) -> pa.Buffer:
    """Validity bits of a column of lists in which an empty list is null: Spark's own source knows no empty headers."""
    numbers = pa.Array.from_buffers(pa.int32(), count + 1, [None, ends])
    return pc.not_equal(numbers[1:], numbers[:-1]).buffers()[1]
