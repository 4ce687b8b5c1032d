"""Records as columns, and columns as records, in Arrow's layout but without Arrow.

    BinaryColumn    a column of bytes, some of them null: validity bits, 32-bit ends, the bytes
    HeaderColumn    a list of headers per row: 32-bit ends, and two columns of keys and values
    Rows            the columns of some records
    ColumnReader    batches in, `RecordColumns` out
    BatchWriter     `RecordColumns` in, batches out: the records of one partition

The loops per record are compiled where the extension `_columns` was built (12 million records of 100 bytes a second,
checksums included), and `plain_columns` has the same in Python where it was not (0.4 million). Both are held to the
same tests.
"""

import sys
from typing import Any, Final, NamedTuple

from penstock.base.buffers import Buffer
from penstock.records import plain_columns
from penstock.records.batch import (
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    seal,
)
from penstock.records.compression import Codec, compress
from penstock.records.errors import CorruptBatchError
from penstock.records.record import block_of

try:
    from penstock.records import _columns

    compiled: Any = _columns
except ImportError:  # optional: not built if there was no compiler at installation
    compiled = None

# Columns are in native byte order; the compiled hash supports little-endian only.
IMPLEMENTATION: Final[Any] = compiled if compiled is not None and sys.byteorder == "little" else plain_columns
IS_COMPILED: Final = IMPLEMENTATION is compiled

NO_OFFSET_LIMIT: Final = 2**63 - 1


class BinaryColumn(NamedTuple):
    """Row `i` is `data[ends[i]:ends[i + 1]]`, or null where the bit `i` of `validity` is not set."""

    validity: Buffer | None
    ends: Buffer
    data: Buffer


class HeaderColumn(NamedTuple):
    """The headers of row `i` are `keys` and `values` from `ends[i]` to `ends[i + 1]`."""

    ends: Buffer
    keys: BinaryColumn
    values: BinaryColumn


class RecordColumns(NamedTuple):
    """The requested columns of some records, in order. Timestamps are in microseconds; they and offsets are 64-bit."""

    row_count: int
    offsets: Buffer
    timestamps_us: Buffer
    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: HeaderColumn | None


class ColumnReader:
    """Collects the records of batches as columns."""

    def __init__(
        self, *, keys: bool = True, values: bool = True, headers: bool = False, implementation: Any = None
    ) -> None:
        self._code = implementation or IMPLEMENTATION
        self._columns = self._code.Columns(keys=keys, values=values, headers=headers)

    @property
    def count(self) -> int:
        """How many rows were added since the last `take`."""
        rows: int = self._columns.rows
        return rows

    @property
    def bytes_count(self) -> int:
        """The approximate memory of these rows."""
        size: int = self._columns.bytes
        return size

    def add(
        self,
        batch: Buffer,
        header: BatchHeader,
        *,
        from_offset: int = 0,
        until_offset: int = NO_OFFSET_LIMIT,
        bytes_max: int,
    ) -> None:
        """Add the records of a batch from one offset up to another, exclusive. CorruptBatchError if it is damaged."""
        block = block_of(batch, header, limit=bytes_max)
        if not block:
            return
        try:
            self._columns.add(
                block,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.log_append_time else None,
                header.last_offset_delta,
                from_offset,
                until_offset,
            )
        except self._code.CorruptError as error:
            raise CorruptBatchError(f"the batch at offset {header.base_offset}: {error}") from error

    def take(self) -> RecordColumns:
        """Return the collected rows, and start with none."""
        count, offsets, timestamps, keys, values, headers = self._columns.take()
        return RecordColumns(
            count,
            offsets,
            timestamps,
            None if keys is None else BinaryColumn(*keys),
            None if values is None else BinaryColumn(*values),
            None
            if headers is None
            else HeaderColumn(headers[0], BinaryColumn(*headers[1]), BinaryColumn(*headers[2])),
        )


class NewRows(NamedTuple):
    """Rows to encode as records; timestamps in milliseconds, or None for the current time."""

    row_count: int
    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: HeaderColumn | None = None
    timestamps_ms: Buffer | None = None


class Writing(NamedTuple):
    """The producer and the codec of batches."""

    codec: Codec = Codec.NONE
    level: int | None = None
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    transactional: bool = False


class BatchWriter:
    """Builds batches of at most `bytes_max` for one partition (a single record may be larger)."""

    def __init__(self, *, bytes_max: int, implementation: Any = None) -> None:
        self._bytes_max = bytes_max
        self._block = (implementation or IMPLEMENTATION).Block()

    @property
    def count(self) -> int:
        """How many records were added since the last `take`."""
        count: int = self._block.count
        return count

    @property
    def bytes_count(self) -> int:
        size: int = self._block.size
        return size

    def add(self, rows: NewRows, which: Buffer, start: int, *, now_ms: int) -> int:
        """Add the rows whose 32-bit numbers `which` has, from index `start` on; returns the index of the first row
        that was not added, because the batch is full, or the length of `which`."""
        taken: int = self._block.add(
            rows.keys,
            rows.values,
            rows.headers,
            rows.timestamps_ms,
            rows.row_count,
            which,
            start,
            now_ms,
            self._bytes_max,
        )
        return taken

    def take(self, writing: Writing, *, base_sequence: int = NO_SEQUENCE) -> bytes:
        """Return a batch of the added records, and start with none."""
        block, count, base_timestamp, max_timestamp = self._block.take()
        assert count > 0, "a batch of nothing"
        header = BatchHeader(
            base_offset=0,
            batch_length=0,  # `seal` sets this and the CRC
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=writing.codec | TRANSACTIONAL * writing.transactional,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=writing.producer_id,
            producer_epoch=writing.producer_epoch,
            base_sequence=base_sequence,
            record_count=count,
        )
        return seal(header, compress(writing.codec, block, writing.level))


def choose_partitions(
    keys: BinaryColumn | None,
    row_count: int,
    *,
    partition_count: int,
    otherwise: int,
    implementation: Any = None,
) -> Buffer:
    """The partition of each row by the hash of its key, as 32-bit numbers; `otherwise` for rows without a key."""
    chosen: Buffer = (implementation or IMPLEMENTATION).choose_partitions(
        keys, row_count, partition_count, otherwise
    )
    return chosen
