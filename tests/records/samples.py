"""Batches to start from, and ways to spoil them: header fields changed with and without a fresh CRC, records
encoded by hand."""

import struct
from typing import Any

from penstock.records.batch import HEADER_SIZE, read_header, seal
from penstock.records.builder import build_batch
from penstock.records.compression import Codec, compress
from penstock.records.record import Record

NOW_MS = 1_700_000_000_000

THREE_RECORDS = [
    Record(0, NOW_MS, b"k0", b"value0"),
    Record(1, NOW_MS + 1, b"k1", b"value1", (("trace", b"x"), ("empty", None))),
    Record(2, NOW_MS + 2, b"k2", b"value2"),
]


def a_batch(codec: Codec = Codec.NONE) -> bytes:
    """Three records, as a client would produce them."""
    return build_batch(THREE_RECORDS, codec=codec)


def with_fields(batch: bytes, **fields: Any) -> bytes:
    """The batch with other header fields and the CRC that goes with them."""
    return seal(read_header(batch)._replace(**fields), batch[HEADER_SIZE:])


def patched(batch: bytes, layout: str, position: int, value: int) -> bytes:
    """The batch with a number overwritten, and nothing else."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    return bytes(changed)


def holding(payload: bytes, codec: Codec = Codec.NONE) -> bytes:
    """A batch that claims three records and holds `payload`, under a good CRC."""
    return with_payload(compress(codec, payload), codec)


def with_payload(compressed: bytes, codec: Codec) -> bytes:
    """A batch that claims three records under `codec`, with these very bytes after the header."""
    return seal(read_header(a_batch())._replace(attributes=codec), compressed)


def varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*encoded, raw])


def raw_record(
    offset_delta: int = 0,
    *,
    key: bytes = b"k",
    value: bytes = b"v",
    headers: bytes = b"\x00",
    timestamp_delta: int = 0,
    size: int | None = None,
    key_size: int | None = None,
    value_size: int | None = None,
) -> bytes:
    """One record whose sizes may lie."""
    body = (
        b"\x00"
        + varint(timestamp_delta)
        + varint(offset_delta)
        + varint(len(key) if key_size is None else key_size)
        + key
        + varint(len(value) if value_size is None else value_size)
        + value
        + headers
    )
    return varint(len(body) if size is None else size) + body


def three_raw(first: bytes) -> bytes:
    """`first`, and two records that are fine."""
    return first + raw_record(1) + raw_record(2)


def legacy_message(magic: int) -> bytes:
    """A message of the formats that Kafka 4 no longer takes; whether its CRC holds does not matter."""
    body = bytes([magic, 0]) + (struct.pack(">q", NOW_MS) if magic else b"") + struct.pack(">ii", -1, -1)
    return struct.pack(">qiI", 0, 4 + len(body), 0) + body
