"""Checks the columns of a write, and turns Arrow batches into columns of records with the partition of each row. The
schema is checked on the driver; batches are converted in tasks.

The columns are those of Spark's own Kafka sink; others are left out, as there. No Python object is made per row.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from penstock.base.errors import UserError
from penstock.base.ids import TopicPartition
from penstock.records.columns import BinaryColumn, HeaderColumn, NewRows, choose_partitions

COLUMNS: Final = ("key", "value", "headers", "topic", "partition")
_BYTES: Final = (StringType, BinaryType)


class RowError(UserError):
    """A row or a schema that cannot become records."""


def check_columns(schema: StructType, *, topic: str | None) -> None:
    """Raise RowError if rows of this schema cannot be written; `topic` is the option's."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "value" not in kinds:
        given = ", ".join(kinds) or "none"
        raise RowError(
            f"a column value (string or binary) is needed, and the columns are: {given}. "
            "Make one, for example with selectExpr('to_json(struct(*)) AS value')"
        )
    if topic is None and "topic" not in kinds:
        raise RowError(
            'nothing says which topic to write to: give .option("topic", ...), or a column topic (string)'
        )
    for name in ("key", "value"):
        _check(kinds, name, "string or binary", lambda kind: isinstance(kind, _BYTES))
    if topic is None:
        _check(kinds, "topic", "string", lambda kind: isinstance(kind, StringType))
    _check(kinds, "partition", "int", lambda kind: isinstance(kind, IntegerType))
    _check(kinds, "headers", "array<struct<key:string,value:binary>>", _are_headers)


def _check(kinds: dict[str, DataType], name: str, wanted: str, fits: Callable[[DataType], bool]) -> None:
    kind = kinds.get(name)
    if kind is not None and not fits(kind):
        raise RowError(
            f"column {name} has to be {wanted}, and is {kind.simpleString()}: cast it before writing"
        )


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )


class Share(NamedTuple):
    """The rows of one partition: their numbers, 32 bits each, in order."""

    partition: TopicPartition
    which: Any


class Spread:
    """Chooses the partitions of rows: by their column, by the hash of their key as the Java client does, and rows
    without either to one partition after the other, a batch of records each."""

    def __init__(
        self, partition_count: Callable[[str], int], *, topic: str | None, first: Callable[[int], int]
    ) -> None:
        self._partition_count = partition_count
        self._topic = topic
        self._first = first
        self._sticky: dict[str, int] = {}

    def take(self, batch: pa.RecordBatch) -> tuple[NewRows, list[Share]]:
        """The rows as columns, and the rows of each partition."""
        columns = {name: _column(batch, name) for name in COLUMNS}
        keys = _binary(columns["key"])
        values = _binary(columns["value"])
        assert values is not None, "checked with the schema"
        rows = NewRows(batch.num_rows, keys, values, _headers(columns["headers"]))
        shares = []
        for topic, members in self._topics(columns["topic"], batch.num_rows):
            indexes = self._indexes(topic, keys, batch.num_rows, columns["partition"], members)
            shares += [
                Share(TopicPartition(topic, index), which) for index, which in _shares(indexes, members)
            ]
        return rows, shares

    def turn(self, partition: TopicPartition) -> None:
        """A batch for this partition is full: send rows without a key to the next partition."""
        topic = partition.topic
        if self._sticky.get(topic) == partition.partition:
            self._sticky[topic] = (partition.partition + 1) % self._partition_count(topic)

    def _topics(self, column: pa.Array | None, row_count: int) -> Iterator[tuple[str, Any]]:
        """The topics, each with the numbers of its rows; None for all of them."""
        if self._topic is not None:
            yield self._topic, None
            return
        assert column is not None, "checked with the schema"
        if column.null_count:
            raise RowError("a row has no topic: its column topic is null, and the option topic is not given")
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            yield names[0], None
            return
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for code, name in enumerate(names):
            yield name, np.flatnonzero(codes == code)
        assert row_count == len(codes)

    def _indexes(
        self, topic: str, keys: BinaryColumn | None, row_count: int, told: pa.Array | None, members: Any
    ) -> Any:
        """The partition of each of these rows."""
        count = self._partition_count(topic)
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= count:
            sticky = self._sticky[topic] = self._first(count)
        if keys is None:
            chosen = np.full(row_count, sticky, dtype=np.int32)
        else:
            buffer = choose_partitions(keys, row_count, partition_count=count, otherwise=sticky)
            chosen = np.frombuffer(buffer, dtype=np.int32)
        if told is not None and told.null_count < len(told):
            given = told.fill_null(-1).to_numpy(zero_copy_only=False)
            is_given = told.is_valid().to_numpy(zero_copy_only=False)
            chosen = np.where(is_given, given, chosen).astype(np.int32)
        if members is not None:
            chosen = chosen[members]
        if len(chosen) and (int(chosen.min()) < 0 or int(chosen.max()) >= count):
            wrong = int(chosen.min()) if int(chosen.min()) < 0 else int(chosen.max())
            raise RowError(
                f"a row names partition {wrong} of topic {topic}, which has partitions 0 to {count - 1}"
            )
        return chosen


def _shares(indexes: Any, members: Any) -> Iterator[tuple[int, Any]]:
    """Rows by partition, each share in the order of the rows."""
    if not len(indexes):
        return
    first = int(indexes[0])
    if bool((indexes == first).all()):
        rows = np.arange(len(indexes), dtype=np.int32) if members is None else members.astype(np.int32)
        yield first, rows
        return
    order = np.argsort(indexes, kind="stable")
    ordered = indexes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], len(ordered)]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        which = order[start:end]
        if members is not None:
            which = members[which]
        yield int(ordered[start]), np.ascontiguousarray(which, dtype=np.int32)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    array = batch.column(index)
    if name == "topic" and array.type != pa.string():
        array = array.cast(pa.string())
    return array


def _binary(array: pa.Array | None) -> BinaryColumn | None:
    """A column of strings or bytes, of any of Arrow's kinds, as ours."""
    if array is None or array.null_count == len(array):
        # A column of nulls only: values stay a column, since a record must have one.
        return None if array is None else _column_of(pa.nulls(len(array), pa.binary()))
    if array.type not in (pa.binary(), pa.string()):
        array = array.cast(pa.binary())
    if array.offset:
        array = pa.concat_arrays(
            [array.slice(0, 0), array]
        )  # copied, so that buffers begin with the first row
        assert array.offset == 0
    return _column_of(array)


def _column_of(array: pa.Array) -> BinaryColumn:
    validity, ends, data = array.buffers()
    return BinaryColumn(
        validity if array.null_count else None,
        ends if ends is not None and ends.size else bytes(4),
        data if data is not None else b"",
    )


def _headers(array: pa.Array | None) -> HeaderColumn | None:
    if array is None or array.null_count == len(array):
        return None
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=ends[1:])
    pairs = array.flatten()  # without the elements under null lists
    if pairs.null_count:
        raise RowError("a row has a header that is null: leave it out of the list")
    names, contents = pairs.flatten()
    if names.null_count:
        raise RowError("a row has a header without a key: a header's key is never null")
    keys, values = _binary(names), _binary(contents)
    assert keys is not None
    assert values is not None
    return HeaderColumn(ends.tobytes(), keys, values)
