"""The loops of `columns` in Python, used if the extension `_columns` was not built: same names, same results."""

from array import array
from collections.abc import Sequence
from typing import Any, Final

from penstock.base.buffers import Buffer
from penstock.records.batch import LOG_APPEND_TIME, MAGIC, BatchHeader
from penstock.records.builder import encode_record
from penstock.records.errors import CorruptBatchError
from penstock.records.murmur2 import partition_of_key
from penstock.records.record import Headers, walk

CorruptError: Final = CorruptBatchError

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_INT32_MAX: Final = 2**31 - 1

Binary = tuple[Buffer | None, Buffer, Buffer]


class _BinaryColumn:
    def __init__(self) -> None:
        self._ends = array("i", [0])
        self._nulls: list[int] = []
        self._parts: list[bytes] = []
        self.size = 0
        self.rows = 0

    def append(self, element: bytes | None) -> None:
        if element is None:
            self._nulls.append(self.rows)
        else:
            self.size += len(element)
            if self.size > _INT32_MAX:
                raise CorruptError("a column of more than 2 GiB")
            self._parts.append(element)
        self._ends.append(self.size)
        self.rows += 1

    def take(self) -> Binary:
        return self._validity(), self._ends.tobytes(), b"".join(self._parts)

    def _validity(self) -> bytes | None:
        if not self._nulls:
            return None
        bits = bytearray(b"\xff" * (self.rows // 8 + 1))
        for row in self._nulls:
            bits[row // 8] &= ~(1 << row % 8)
        return bytes(bits)


class Columns:
    """Collects records as columns."""

    def __init__(self, *, keys: bool = False, values: bool = False, headers: bool = False) -> None:
        self._wanted = keys, values, headers
        self._begin()

    def _begin(self) -> None:
        self.rows = 0
        self._offsets = array("q")
        self._timestamps = array("q")
        self._keys, self._values = _BinaryColumn(), _BinaryColumn()
        self._header_ends = array("i", [0])
        self._header_keys, self._header_values = _BinaryColumn(), _BinaryColumn()

    @property
    def bytes(self) -> int:
        columns = self._keys, self._values, self._header_keys, self._header_values
        return sum(column.size for column in columns) + 16 * self.rows

    def add(
        self,
        block: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_timestamp: int | None,
        last_offset_delta: int,
        from_offset: int,
        until_offset: int,
    ) -> int:
        header = _header(count, base_offset, base_timestamp, append_timestamp, last_offset_delta)
        want_keys, want_values, want_headers = self._wanted
        before = self.rows
        for offset, timestamp, key, value, headers in walk(bytes(block), header):
            if not from_offset <= offset < until_offset:
                continue
            self._offsets.append(offset)
            self._timestamps.append(min(max(timestamp * 1000, _INT64_MIN), _INT64_MAX))
            if want_keys:
                self._keys.append(key)
            if want_values:
                self._values.append(value)
            if want_headers:
                self._add_headers(headers)
            self.rows += 1
        return self.rows - before

    def _add_headers(self, headers: Headers) -> None:
        for name, value in headers:
            self._header_keys.append(name.encode())
            self._header_values.append(value)
        self._header_ends.append(self._header_keys.rows)

    def take(self) -> tuple[Any, ...]:
        want_keys, want_values, want_headers = self._wanted
        taken = (
            self.rows,
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._keys.take() if want_keys else None,
            self._values.take() if want_values else None,
            (self._header_ends.tobytes(), self._header_keys.take(), self._header_values.take())
            if want_headers
            else None,
        )
        self._begin()
        return taken


def _header(
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    last_offset_delta: int,
) -> BatchHeader:
    """The header fields that `walk` needs."""
    return BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0 if append_timestamp is None else LOG_APPEND_TIME,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=base_timestamp if append_timestamp is None else append_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


class _View:
    """Reads a column that was made elsewhere."""

    def __init__(self, column: Binary | None, rows: int) -> None:
        self._column = column
        if column is None:
            return
        validity, ends, data = column
        self._validity = None if validity is None else memoryview(validity).cast("B")
        self._ends = _numbers(ends, rows + 1)
        self._data = memoryview(data).cast("B")
        if rows and not _rises_within(self._ends, len(self._data)):
            raise ValueError("a column's buffers do not fit its rows")
        if self._validity is not None and len(self._validity) < (rows + 7) // 8:
            raise ValueError("a column's buffers do not fit its rows")

    def __getitem__(self, row: int) -> "bytes | None":
        if self._column is None:
            return None
        if self._validity is not None and not self._validity[row // 8] >> row % 8 & 1:
            return None
        return bytes(self._data[self._ends[row] : self._ends[row + 1]])


def _numbers(buffer: Buffer, count: int) -> Sequence[int]:
    view = memoryview(buffer).cast("B")
    numbers = view[: len(view) // 4 * 4].cast("i")
    if count > 1 and len(numbers) < count:
        raise ValueError("a column's buffers do not fit its rows")
    return numbers[:count]


def _rises_within(ends: Sequence[int], limit: int) -> bool:
    previous = 0
    for end in ends:
        if end < previous:
            return False
        previous = end
    return previous <= limit


class Block:
    """The records of one batch, made of rows."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._parts: list[bytes] = []
        self._base_timestamp = self._max_timestamp = -1
        self.count = 0
        self.size = 0

    def add(
        self,
        keys: Binary | None,
        values: Binary | None,
        headers: tuple[Buffer, Binary, Binary] | None,
        timestamps: Buffer | None,
        row_count: int,
        which: Buffer,
        start: int,
        now_ms: int,
        size_max: int,
    ) -> int:
        key_view, value_view = _View(keys, row_count), _View(values, row_count)
        headers_of = _headers_of(headers, row_count)
        times = None if timestamps is None else memoryview(timestamps).cast("B").cast("q")
        if times is not None and len(times) < row_count:
            raise ValueError("there are fewer timestamps than rows")
        rows = memoryview(which).cast("B").cast("i")
        if not 0 <= start <= len(rows):
            raise ValueError("the start is beyond the rows")
        if any(not 0 <= row < row_count for row in rows[start:]):
            raise ValueError("there is no such row")
        for index in range(start, len(rows)):
            row = rows[index]
            timestamp = now_ms if times is None else times[row]
            base = self._base_timestamp if self.count else timestamp
            record = encode_record(
                timestamp - base, self.count, key_view[row], value_view[row], headers_of(row)
            )
            if self.count and self.size + len(record) > size_max:
                return index
            self._parts.append(record)
            self.size += len(record)
            self._base_timestamp = base
            self._max_timestamp = max(timestamp, self._max_timestamp) if self.count else timestamp
            self.count += 1
        return len(rows)

    def take(self) -> tuple[bytes, int, int, int]:
        taken = b"".join(self._parts), self.count, self._base_timestamp, self._max_timestamp
        self._begin()
        return taken


def _headers_of(headers: tuple[Buffer, Binary, Binary] | None, row_count: int) -> Any:
    if headers is None:
        return lambda _row: ()
    ends = _numbers(headers[0], row_count + 1)
    if row_count and not _rises_within(ends, _INT32_MAX):
        raise ValueError("a column's buffers do not fit its rows")
    count = ends[row_count] if row_count else 0
    keys, values = _View(headers[1], count), _View(headers[2], count)

    def of(row: int) -> Headers:
        found = []
        for each in range(ends[row], ends[row + 1]):
            key = keys[each]
            if key is None:
                raise ValueError("a header has no key")
            found.append((key.decode(), values[each]))
        return tuple(found)

    return of


def choose_partitions(keys: Binary | None, row_count: int, partition_count: int, otherwise: int) -> bytes:
    if row_count < 0 or partition_count < 1:
        raise ValueError("rows and partitions are counted from 0 and 1 on")
    view = _View(keys, row_count)
    chosen = array("i")
    for row in range(row_count):
        key = view[row]
        chosen.append(otherwise if key is None else partition_of_key(key, partition_count))
    return chosen.tobytes()
