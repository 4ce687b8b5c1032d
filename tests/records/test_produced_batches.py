"""What a produce request may carry, against what Apache Kafka 4.3.1 answered to the very same bytes.

Kafka's column was found by asking a real broker (Produce v8, acks=1). Ours differs where a reason stands
beside it.
"""

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.batch import BatchHeader, check_produced, read_header
from penstock.records.builder import build_batch
from penstock.records.compression import Codec, compress
from penstock.records.record import Record, RecordRules, validate_records
from tests.records.samples import (
    NOW_MS,
    a_batch,
    holding,
    legacy_message,
    patched,
    raw_record,
    three_raw,
    with_fields,
    with_payload,
)

GOOD = a_batch()
ACCEPTED = ErrorCode.NONE
INVALID = ErrorCode.INVALID_RECORD
CORRUPT = ErrorCode.CORRUPT_MESSAGE
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
CRASHED = ErrorCode.UNKNOWN_SERVER_ERROR  # in Kafka: an unexpected exception
UNKNOWN_CODEC = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
SIZE_MAX = 1_000
LARGE = build_batch([Record(0, NOW_MS, None, bytes(SIZE_MAX))])

CLIENTS_FAULT = "the client's fault, so not a server error"


def in_two_frames(codec: Codec) -> bytes:
    return with_payload(compress(codec, THREE[:9]) + compress(codec, THREE[9:]), codec)


def with_tail(codec: Codec) -> bytes:
    return with_payload(compress(codec, THREE) + b"zzzzzz", codec)


THREE = three_raw(raw_record())
TWICE = holding(raw_record(0) + raw_record(0) + raw_record(2))
LEFT_OUT = holding(raw_record(0) + raw_record(1) + raw_record(3))
NOT_UTF8 = holding(three_raw(raw_record(headers=b"\x02\x02\xff\x01")))

# name: (records, Kafka's answer[, ours, and why it is another])
HEADER_MODE = {
    "three good records": (GOOD, ACCEPTED),
    "no bytes": (b"", INVALID),
    "less than a length": (GOOD[:10], INVALID),
    "less than a magic": (GOOD[:16], INVALID),
    "less than a header": (GOOD[:30], INVALID),
    "one byte short": (GOOD[:-1], INVALID),
    "a few bytes more": (GOOD + b"12345", ACCEPTED),
    "a second batch cut short": (GOOD + GOOD[:-1], ACCEPTED),
    "zeros after the batch": (GOOD + bytes(30), CORRUPT),
    "noise after the batch": (GOOD + b"\xff" * 30, CORRUPT),
    "two batches": (GOOD + GOOD, INVALID),
    "format 0": (legacy_message(0), INVALID),
    "format 1": (legacy_message(1), INVALID),
    "format 3": (patched(GOOD, "b", 16, 3), CORRUPT),
    "format -1": (patched(GOOD, "b", 16, -1), CORRUPT),
    "wrong CRC": (patched(GOOD, ">I", 17, 1), CORRUPT),
    "length -1": (patched(GOOD, ">i", 8, -1), CORRUPT),
    "length 0": (patched(GOOD, ">i", 8, 0), CORRUPT),
    "length 13": (patched(GOOD, ">i", 8, 13), CORRUPT),
    "length 14": (patched(GOOD, ">i", 8, 14), CORRUPT),
    "length one below a header's": (patched(GOOD, ">i", 8, 48), CORRUPT),
    "length of a header": (patched(GOOD, ">i", 8, 49), CORRUPT),
    "length one too short": (patched(GOOD, ">i", 8, len(GOOD) - 13), CORRUPT),
    "length one too long": (patched(GOOD, ">i", 8, len(GOOD) - 11), INVALID),
    "length of 2 GiB": (patched(GOOD, ">i", 8, 2**31 - 1), CRASHED, INVALID, "just another cut batch"),
    "base offset 5": (patched(GOOD, ">q", 0, 5), INVALID),
    "base offset -1": (patched(GOOD, ">q", 0, -1), INVALID),
    "any leader epoch": (patched(GOOD, ">i", 12, 9), ACCEPTED),
    "fewer records counted": (with_fields(GOOD, record_count=2), INVALID),
    "more records counted": (with_fields(GOOD, record_count=4), INVALID),
    "no records counted": (with_fields(GOOD, record_count=0), INVALID),
    "-1 records counted": (with_fields(GOOD, record_count=-1), INVALID),
    "neither records nor offsets": (with_fields(GOOD[:61], record_count=0, last_offset_delta=-1), INVALID),
    "last offset too small": (with_fields(GOOD, last_offset_delta=1), INVALID),
    "last offset negative": (with_fields(GOOD, last_offset_delta=-1), INVALID),
    "codec 5": (with_fields(GOOD, attributes=5), CRASHED, UNKNOWN_CODEC, "says what is wrong"),
    "codec 7": (with_fields(GOOD, attributes=7), CRASHED, UNKNOWN_CODEC, "says what is wrong"),
    "attribute bit 7": (with_fields(GOOD, attributes=0x80), ACCEPTED),
    "attribute bit 15": (with_fields(GOOD, attributes=-0x8000), ACCEPTED),
    "a delete horizon": (with_fields(GOOD, attributes=0x40), ACCEPTED, INVALID, "compaction would trust it"),
    "append time": (with_fields(GOOD, attributes=0x08), ACCEPTED, INVALID, "Kafka clears it; a new CRC"),
    "a control batch": (with_fields(GOOD, attributes=0x20), INVALID),
    "a producer without sequence": (with_fields(GOOD, producer_id=5, producer_epoch=0), INVALID),
    "sequence -2": (with_fields(GOOD, producer_id=5, producer_epoch=0, base_sequence=-2), INVALID),
    "a sequence without producer": (with_fields(GOOD, base_sequence=5), ACCEPTED),
    "larger than allowed": (LARGE, TOO_LARGE),
    "larger than allowed, wrong CRC": (patched(LARGE, ">I", 17, 1), TOO_LARGE),
    "larger than allowed, base offset 5": (patched(LARGE, ">q", 0, 5), INVALID),
    "wrong CRC over a wrong count": (patched(with_fields(GOOD, record_count=9), ">I", 17, 1), CORRUPT),
}

# What shows only when the records are opened. Kafka always opens them; we do where a topic needs it.
RECORDS_MODE = {
    "three good records": (holding(THREE), ACCEPTED),
    "a record fewer than counted": (with_fields(GOOD, last_offset_delta=3, record_count=4), INVALID),
    "a record more than counted": (with_fields(GOOD, last_offset_delta=1, record_count=2), INVALID),
    "2 billion counted": (with_fields(GOOD, last_offset_delta=2**31 - 2, record_count=2**31 - 1), INVALID),
    "bytes after the last record": (holding(THREE + bytes(3)), INVALID),
    "bytes after the last record, gzip": (holding(THREE + bytes(3), Codec.GZIP), INVALID),
    "the last byte missing": (holding(THREE[:-1]), INVALID),
    "the last byte missing, gzip": (holding(THREE[:-1], Codec.GZIP), INVALID),
    "a record larger than its batch": (holding(three_raw(raw_record(size=60))), INVALID),
    "a record one byte short": (holding(three_raw(raw_record(size=7))), INVALID),
    "record size -1": (holding(three_raw(raw_record(size=-1))), INVALID),
    "a key past the end": (holding(three_raw(raw_record(key_size=1_000))), INVALID),
    "-1 headers": (holding(three_raw(raw_record(headers=b"\x01"))), INVALID),
    "more headers than bytes": (holding(three_raw(raw_record(headers=b"\x20"))), INVALID),
    "a null header key": (holding(three_raw(raw_record(headers=b"\x02\x01\x01"))), INVALID),
    "an endless varint": (holding(three_raw(b"\x80" * 6 + b"\x01")), CRASHED, INVALID, CLIENTS_FAULT),
    "key size -2": (holding(three_raw(raw_record(key=b"", key_size=-2))), ACCEPTED, INVALID, "null is -1"),
    "a header key that is not UTF-8": (NOT_UTF8, ACCEPTED, INVALID, "consumers choke on it"),
    "an offset twice": (TWICE, ACCEPTED, INVALID, "consumers would see it twice"),
    "an offset left out": (LEFT_OUT, ACCEPTED, INVALID, "the last one overlaps the next batch"),
    "an offset left out, gzip": (holding(LEFT_OUT[61:], Codec.GZIP), CRASHED, INVALID, CLIENTS_FAULT),
    "plain records called gzip": (with_payload(THREE, Codec.GZIP), CRASHED, INVALID, CLIENTS_FAULT),
    "plain records called snappy": (with_payload(THREE, Codec.SNAPPY), CRASHED, INVALID, CLIENTS_FAULT),
    "plain records called lz4": (with_payload(THREE, Codec.LZ4), CRASHED, INVALID, CLIENTS_FAULT),
    "plain records called zstd": (with_payload(THREE, Codec.ZSTD), CRASHED, INVALID, CLIENTS_FAULT),
    "gzip in two members": (in_two_frames(Codec.GZIP), ACCEPTED),
    "lz4 in two frames": (in_two_frames(Codec.LZ4), INVALID, ACCEPTED, "lz4's own tools read it"),
    "zstd in two frames": (in_two_frames(Codec.ZSTD), ACCEPTED),
    "bytes after the gzip member": (with_tail(Codec.GZIP), ACCEPTED, INVALID, "not part of any record"),
    "bytes after the zstd frame": (with_tail(Codec.ZSTD), CRASHED, INVALID, CLIENTS_FAULT),
}


def expected(case: tuple) -> ErrorCode:
    """Our answer: Kafka's, unless the case names another."""
    return case[2] if len(case) > 2 else case[1]


@pytest.mark.parametrize("name", HEADER_MODE)
def test_a_batch_is_answered_as_kafka_answers_it(name):
    case = HEADER_MODE[name]
    answer = check_produced(memoryview(case[0]), size_max=SIZE_MAX)
    assert (ACCEPTED if isinstance(answer, BatchHeader) else answer) == expected(case)


@pytest.mark.parametrize("name", RECORDS_MODE)
def test_a_batch_that_is_opened_is_answered_as_kafka_answers_it(name):
    case = RECORDS_MODE[name]
    header = check_produced(memoryview(case[0]), size_max=SIZE_MAX)
    assert isinstance(header, BatchHeader), "only its records can be wrong"
    answer = validate_records(memoryview(case[0]), header, RecordRules(limit=SIZE_MAX, key_required=False))
    assert (answer or ACCEPTED) == expected(case)


def test_an_absent_records_field_is_an_invalid_record():
    # Kafka never answers this one, and drops the connection when it has been idle for long.
    assert check_produced(None, size_max=SIZE_MAX) is INVALID


def test_a_batch_of_exactly_the_largest_size_is_taken():
    assert isinstance(check_produced(GOOD, size_max=len(GOOD)), BatchHeader)
    assert check_produced(GOOD, size_max=len(GOOD) - 1) is TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_of_any_codec_comes_back_as_its_header(codec):
    batch = a_batch(codec)
    assert check_produced(memoryview(batch), size_max=SIZE_MAX) == read_header(batch)
    assert validate_records(batch, read_header(batch), RecordRules(limit=SIZE_MAX, key_required=True)) is None


# -- timestamps ----------------------------------------------------------------------------------------------

HOUR_MS = 3_600_000
LONG_MAX = 2**63 - 1


def stamped(*timestamps: int) -> BatchHeader:
    return read_header(
        build_batch([Record(offset, timestamp, b"k", b"v") for offset, timestamp in enumerate(timestamps)])
    )


@pytest.mark.parametrize("late_by_ms", [0, 1])
def test_an_old_record_that_the_header_hides_is_found_among_the_records(late_by_ms):
    times = (NOW_MS, NOW_MS - HOUR_MS - late_by_ms, -1)
    batch = build_batch([Record(offset, time, b"k", b"v") for offset, time in enumerate(times)])
    answer = validate_records(
        batch,
        read_header(batch),
        RecordRules(limit=SIZE_MAX, key_required=False, earliest_ms=NOW_MS - HOUR_MS),
    )
    assert answer is (ErrorCode.INVALID_TIMESTAMP if late_by_ms else None)


# -- keys and bombs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_refuses_a_record_without_key_but_not_one_with_an_empty_key(codec):
    keyed = build_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, b"", b"v")], codec=codec)
    keyless = build_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v")], codec=codec)
    assert validate_records(keyed, read_header(keyed), RecordRules(limit=SIZE_MAX, key_required=True)) is None
    assert (
        validate_records(keyless, read_header(keyless), RecordRules(limit=SIZE_MAX, key_required=True))
        is INVALID
    )
    assert (
        validate_records(keyless, read_header(keyless), RecordRules(limit=SIZE_MAX, key_required=False))
        is None
    )


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_batch_that_inflates_past_the_limit_is_too_large(codec):
    bomb = build_batch([Record(0, NOW_MS, b"k", bytes(1_000_000))], codec=codec)
    assert (
        validate_records(bomb, read_header(bomb), RecordRules(limit=100_000, key_required=False)) is TOO_LARGE
    )
    assert validate_records(bomb, read_header(bomb), RecordRules(limit=1_100_000, key_required=False)) is None
