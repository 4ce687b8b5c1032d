"""Builds batches: from records (command line, compaction, tests), or from a batch with another codec.

`build_batch` takes records that have their offsets, gaps allowed. It does not split: one call, one batch. About 700,000
records of 100 bytes a second.
"""

from collections.abc import Iterable, Sequence

from penstock.base.buffers import Buffer
from penstock.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    seal,
)
from penstock.records.compression import Codec, compress
from penstock.records.record import Headers, Record, payload_of

NO_EPOCH = -1


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = NO_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    max_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One batch of `records`, whose offsets rise from `base_offset` on.

    `last_offset_delta` and `max_timestamp` follow from the records, unless compaction gives the old ones: it
    takes records away but keeps a batch's range. No records and a `last_offset_delta` make the empty batch
    that remembers a producer's last sequence number.
    """
    parts: list[bytes] = []
    newest = NO_TIMESTAMP
    base_timestamp = delete_horizon_ms
    offset_delta = -1
    for offset, timestamp, key, value, headers in records:
        if base_timestamp is None:
            base_timestamp = timestamp
        if timestamp > newest:
            newest = timestamp
        assert offset_delta < offset - base_offset, "records of one batch have rising offsets"
        offset_delta = offset - base_offset
        parts.append(encode_record(timestamp - base_timestamp, offset_delta, key, value, headers))
    assert parts or last_offset_delta is not None, "an empty batch needs a last_offset_delta"
    attributes = codec if parts else Codec.NONE
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,  # `seal` sets this and the CRC
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes
        | LOG_APPEND_TIME * log_append_time
        | TRANSACTIONAL * transactional
        | CONTROL * control
        | DELETE_HORIZON * (delete_horizon_ms is not None),
        last_offset_delta=offset_delta if last_offset_delta is None else last_offset_delta,
        base_timestamp=NO_TIMESTAMP if base_timestamp is None else base_timestamp,
        max_timestamp=newest if max_timestamp is None else max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(parts),
    )
    return seal(header, compress(attributes, b"".join(parts), level))


def build_plain_batch(
    records: Sequence[tuple[bytes, bytes | None]],
    *,
    timestamp: int,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_EPOCH,
) -> bytes:
    """As `build_batch` in half the time, for keys and values of one timestamp: for records that the broker writes."""
    parts: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        body = b"".join(
            (
                b"\x00\x00",  # attributes, and no difference to the batch's timestamp
                _varint(delta),
                _varint(len(key)),
                key,
                b"\x01" if value is None else _varint(len(value)),
                value or b"",
                b"\x00",  # headers
            )
        )
        parts += (_varint(len(body)), body)
    count = len(records)
    header = BatchHeader(
        0,
        0,  # `seal` sets this and the CRC
        NO_EPOCH,
        MAGIC,
        0,
        attributes,
        count - 1,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        count,
    )
    return seal(header, b"".join(parts))


def recompress(batch: Buffer, codec: Codec, level: int | None = None, *, limit: int) -> bytes:
    """The same batch with another codec; its records may take at most `limit` bytes uncompressed."""
    header = read_header(batch)
    payload = payload_of(batch, header, limit=limit)
    if not payload:
        codec = Codec.NONE  # emptied by compaction: a header alone
    attributes = header.attributes & ~CODEC_MASK | codec
    return seal(header._replace(attributes=attributes), compress(codec, payload, level))


# -- one record as bytes -------------------------------------------------------------------------------------


def _long_varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


_SHORT_COUNT = 1024
# The varints of 0 to 1022 and, at index -1, that of -1: the size of null.
_SHORT = (*(_long_varint(number) for number in range(_SHORT_COUNT - 1)), _long_varint(-1))


def _varint(number: int) -> bytes:
    return _SHORT[number] if -1 <= number < _SHORT_COUNT - 1 else _long_varint(number)


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    """One record, its size in front."""
    body = b"".join(
        (
            b"\x00",  # attributes: no bit has a meaning yet
            _varint(timestamp_delta),
            _varint(offset_delta),
            b"\x01" if key is None else _varint(len(key)),
            key or b"",
            b"\x01" if value is None else _varint(len(value)),
            value or b"",
            _encode_headers(headers) if headers else b"\x00",
        )
    )
    return _varint(len(body)) + body


def _encode_headers(headers: Headers) -> bytes:
    parts = [_varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += (
            _varint(len(encoded)),
            encoded,
            b"\x01" if value is None else _varint(len(value)),
            value or b"",
        )
    return b"".join(parts)
