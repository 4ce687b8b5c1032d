"""Records inside a batch: the reader, and the check of a produced batch record by record.

The reader is strict: the records must fill the batch exactly, count and sizes must hold, offsets must rise
and stay in the batch's range (compaction leaves gaps), header keys must be UTF-8. It does not look at the
CRC: `batch.crc_holds` does. It runs per record, which the hot paths of produce and fetch never do; about
600,000 records of 100 bytes a second.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode
from penstock.records.batch import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, read_header, require_sane
from penstock.records.compression import decompress
from penstock.records.errors import CorruptBatchError, DecompressionLimitError

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record, with the offset and the timestamp that its batch gives it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


_RECORD_SIZE_MIN = 7  # a length, attributes, two deltas, two sizes and a header count, one byte each
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1

# What a varint of one byte means, by that byte.
_ONE_BYTE = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))


def read_records(batch: Buffer, *, limit: int) -> Iterator[Record]:
    """The records of the batch at the start of `batch`, inflating to at most `limit` bytes.

    Errors of the batch as a whole are raised at once, errors of a record when it is reached.
    """
    header = read_header(batch)
    return walk(payload_of(batch, header, limit=limit), header)


class RecordRules(NamedTuple):
    """A topic's rules for every record that is produced to it."""

    limit: int  # of the bytes that a batch's records take uncompressed
    key_required: bool
    earliest_ms: int = _INT64_MIN
    latest_ms: int = _INT64_MAX

    def takes_timestamp(self, record: Record) -> bool:
        return self.earliest_ms <= record.timestamp <= self.latest_ms or record.timestamp == NO_TIMESTAMP

    def takes_key(self, record: Record) -> bool:
        return record.key is not None or not self.key_required


def validate_records(batch: Buffer, header: BatchHeader, rules: RecordRules) -> ErrorCode | None:
    """The error for a produced batch, checked record by record; None if it may be appended.

    This is what the "records" mode of validation adds to `batch.check_produced`. Beyond what the reader
    demands, a producer's offsets have no gaps, and the topic's rules hold.
    """
    try:
        for index, record in enumerate(walk(payload_of(batch, header, limit=rules.limit), header)):
            if record.offset != header.base_offset + index or not rules.takes_key(record):
                return ErrorCode.INVALID_RECORD
            if not rules.takes_timestamp(record):
                return ErrorCode.INVALID_TIMESTAMP
    except DecompressionLimitError:
        # Clients split a batch that is too large and retry, which may be enough here, too.
        return ErrorCode.MESSAGE_TOO_LARGE
    except CorruptBatchError:
        return ErrorCode.INVALID_RECORD
    return None


def bad_records(batch: Buffer, header: BatchHeader, rules: RecordRules) -> list[int]:
    """The indexes of the records of a rejected batch that break the topic's rules, as far as it can be read."""
    found = []
    try:
        for index, record in enumerate(walk(payload_of(batch, header, limit=rules.limit), header)):
            if not (rules.takes_key(record) and rules.takes_timestamp(record)):
                found.append(index)
    except CorruptBatchError:
        pass
    return found


def payload_of(batch: Buffer, header: BatchHeader, *, limit: int) -> bytes:
    """The decompressed block of records, at most `limit` bytes, after all checks of the batch as a whole."""
    return bytes(block_of(batch, header, limit=limit))


def block_of(batch: Buffer, header: BatchHeader, *, limit: int) -> Buffer:
    """The same as any kind of buffer: a view of the batch if it is not compressed."""
    require_sane(header)
    if header.size > len(batch):
        raise CorruptBatchError(f"the batch takes {header.size} bytes; there are {len(batch)}")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise CorruptBatchError(
            f"a batch cannot have {header.record_count} records up to offset delta {header.last_offset_delta}"
        )
    compressed = memoryview(batch)[HEADER_SIZE : header.size]
    if not compressed and not header.record_count:
        return b""  # compaction took all records and left the header; then there is no frame either
    block = decompress(header.codec, compressed, limit=limit)
    if header.record_count * _RECORD_SIZE_MIN > len(block):
        raise CorruptBatchError(f"{header.record_count} records cannot fit into {len(block)} bytes")
    return block


def walk(data: bytes, header: BatchHeader) -> Iterator[Record]:
    """Iterate over the records of a decompressed block; CorruptBatchError if it is damaged."""
    # The one loop per record: varints of one and two bytes are read in place, since a call costs as much as
    # the rest of a field. Reading past a record's end is caught by comparing positions once, at that end;
    # reading past the data's end raises IndexError, or makes a slice shorter and then fails the same
    # comparison.
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_timestamp = header.max_timestamp if header.log_append_time else None
    last_offset_delta = header.last_offset_delta
    one_byte, new_record = _ONE_BYTE, tuple.__new__
    position = 0
    previous_delta = -1
    try:
        for _ in range(header.record_count):
            byte = data[position]
            if byte < 0x80:
                size = one_byte[byte]
                position += 1
            elif (second := data[position + 1]) < 0x80:
                raw = byte & 0x7F | second << 7
                size = (raw >> 1) ^ -(raw & 1)
                position += 2
            else:
                size, position = _long_varint(data, position, 32)
            end = position + size

            position += 1  # the record's attributes: no bit has a meaning yet
            byte = data[position]
            if byte < 0x80:
                timestamp = base_timestamp + one_byte[byte]
                position += 1
            elif (second := data[position + 1]) < 0x80:
                raw = byte & 0x7F | second << 7
                timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
                position += 2
            else:
                delta, position = _long_varint(data, position, 64)
                timestamp = base_timestamp + delta
            if not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise CorruptBatchError(f"timestamp {timestamp} does not fit into 64 bits")

            byte = data[position]
            if byte < 0x80:
                delta = one_byte[byte]
                position += 1
            elif (second := data[position + 1]) < 0x80:
                raw = byte & 0x7F | second << 7
                delta = (raw >> 1) ^ -(raw & 1)
                position += 2
            else:
                delta, position = _long_varint(data, position, 32)
            if not previous_delta < delta <= last_offset_delta:
                raise CorruptBatchError(
                    f"offset delta {delta} after {previous_delta} in a batch that ends at {last_offset_delta}"
                )
            previous_delta = delta

            byte = data[position]
            if byte < 0x80:
                size = one_byte[byte]
                position += 1
            else:
                size, position = _long_varint(data, position, 32)
            if size >= 0:
                key = data[position : position + size]
                position += size
            elif size == -1:
                key = None
            else:
                raise CorruptBatchError(f"a key of {size} bytes")

            byte = data[position]
            if byte < 0x80:
                size = one_byte[byte]
                position += 1
            elif (second := data[position + 1]) < 0x80:
                raw = byte & 0x7F | second << 7
                size = (raw >> 1) ^ -(raw & 1)
                position += 2
            else:
                size, position = _long_varint(data, position, 32)
            if size >= 0:
                value = data[position : position + size]
                position += size
            elif size == -1:
                value = None
            else:
                raise CorruptBatchError(f"a value of {size} bytes")

            if data[position]:
                headers, position = _read_headers(data, position)
            else:
                headers = ()
                position += 1
            if position != end:
                raise CorruptBatchError(f"a record ends {position - end} bytes past the end its size gives")
            yield new_record(
                Record,
                (
                    base_offset + delta,
                    timestamp if append_timestamp is None else append_timestamp,
                    key,
                    value,
                    headers,
                ),
            )
    except IndexError as error:
        raise CorruptBatchError("the records go on past the end of their batch") from error
    if position != len(data):
        raise CorruptBatchError(f"{len(data) - position} bytes follow the last record")


def _read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    count, position = _varint(data, position)
    if count < 0 or 2 * count > len(data) - position:
        raise CorruptBatchError(f"a record cannot have {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = _varint(data, position)
        if size < 0:
            raise CorruptBatchError(f"a header key of {size} bytes")
        try:
            key = data[position : position + size].decode()
        except UnicodeDecodeError as error:
            raise CorruptBatchError("a header key is not UTF-8") from error
        position += size
        size, position = _varint(data, position)
        if size >= 0:
            headers.append((key, data[position : position + size]))
            position += size
        elif size == -1:
            headers.append((key, None))
        else:
            raise CorruptBatchError(f"a header value of {size} bytes")
    return tuple(headers), position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A 32-bit number and the position after it."""
    byte = data[position]
    if byte < 0x80:
        return _ONE_BYTE[byte], position + 1
    return _long_varint(data, position, 32)


def _long_varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """A number in seven bits a byte, lowest first, the sign in its lowest bit; and the position after it."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise CorruptBatchError(f"a varint of more than {bits} bits")
    if raw >> bits:
        raise CorruptBatchError(f"a varint of more than {bits} bits")
    return (raw >> 1) ^ -(raw & 1), position
