"""The reader: what it gives, and what it does not let pass."""

import pytest

from penstock.records.batch import read_header, seal
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatchError, DecompressionLimitError
from penstock.records.record import Record, read_records
from tests.records.samples import (
    NOW_MS,
    THREE_RECORDS,
    a_batch,
    holding,
    patched,
    raw_record,
    three_raw,
    varint,
    with_fields,
)

LIMIT = 1_000_000


def read(batch: bytes) -> list[Record]:
    return list(read_records(batch, limit=LIMIT))


@pytest.mark.parametrize("codec", Codec)
def test_records_come_out_as_they_went_in(codec):
    assert read(a_batch(codec)) == THREE_RECORDS


def test_offsets_and_timestamps_are_relative_to_the_batch_header():
    batch = with_fields(a_batch(), base_offset=100, base_timestamp=NOW_MS + 50)
    assert [(record.offset, record.timestamp) for record in read(batch)] == [
        (100, NOW_MS + 50),
        (101, NOW_MS + 51),
        (102, NOW_MS + 52),
    ]


def test_append_time_stands_above_the_records_own_times():
    batch = with_fields(a_batch(), attributes=0x08, max_timestamp=77)
    assert [record.timestamp for record in read(batch)] == [77, 77, 77]


def test_gaps_that_compaction_left_are_fine():
    batch = with_fields(holding(raw_record(1) + raw_record(4) + raw_record(9)), last_offset_delta=12)
    assert [record.offset for record in read(batch)] == [1, 4, 9]


def test_a_batch_that_compaction_emptied_has_no_records():
    assert read(build_batch([], last_offset_delta=5, producer_id=1, producer_epoch=0, base_sequence=0)) == []


def test_what_follows_the_batch_is_not_looked_at():
    assert read(a_batch() + b"anything") == THREE_RECORDS


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1_022, 1_023, 1_024, 8_190, 8_191, 8_192, 8_193, 600_000])
def test_keys_values_and_headers_of_any_size_are_read(size):
    blob = bytes(size)
    records = [
        Record(0, NOW_MS, blob, None),
        Record(1, NOW_MS, None, blob),
        Record(2, NOW_MS, None, None, (("h" * size, blob),)),
    ]
    assert list(read_records(build_batch(records), limit=4 * size + 200)) == records


@pytest.mark.parametrize("delta", [0, 63, -64, 64, 8_191, -8_192, 8_192, 2**31, -(2**40), 2**62])
def test_timestamps_go_both_ways(delta):
    records = [Record(0, NOW_MS, None, None), Record(1, NOW_MS + delta, None, None)]
    assert read(build_batch(records)) == records


def test_a_varint_longer_than_it_needs_to_be_is_still_that_number():
    body = b"\x00" + b"\x80\x00" + b"\x80\x80\x00" + varint(-1) + varint(-1) + b"\x00"
    assert read(holding(three_raw(varint(len(body)) + body)))[0] == Record(0, NOW_MS, None, None)


BAD_RECORDS = {
    "bytes after the last record": (three_raw(raw_record()) + b"\x00", "1 bytes follow"),
    "a cut record": (three_raw(raw_record())[:-1], "past the end"),
    "a record size that is too small": (three_raw(raw_record(size=7)), "past the end its size gives"),
    "a record size that is too large": (three_raw(raw_record(size=9)), "-1 bytes past"),
    "a negative record size": (three_raw(raw_record(size=-1)), "past the end its size gives"),
    "a record size of five bytes too many": (three_raw(b"\xff" * 5 + b"\x0f"), "more than 32 bits"),
    "a record size past 32 bits": (three_raw(b"\xff\xff\xff\xff\x1f"), "more than 32 bits"),
    "a timestamp past 64 bits": (
        three_raw(b"\x20\x00" + b"\xff" * 9 + b"\x02" + bytes(5)),
        "more than 64 bits",
    ),
    "a sum past 64 bits": (three_raw(raw_record(timestamp_delta=2**63 - 1)), "does not fit into 64 bits"),
    "key size -2": (three_raw(raw_record(key=b"", key_size=-2)), "a key of -2 bytes"),
    "value size -2": (three_raw(raw_record(value=b"", value_size=-2)), "a value of -2 bytes"),
    "a key past the end": (three_raw(raw_record(key_size=500)), "past the end"),
    "a value past the end": (three_raw(raw_record(value_size=2**31 - 1)), "past the end"),
    "-1 headers": (three_raw(raw_record(headers=b"\x01")), "-1 headers"),
    "2 billion headers": (three_raw(raw_record(headers=varint(2**31 - 1))), "2147483647 headers"),
    "a null header key": (three_raw(raw_record(headers=b"\x02\x01\x01")), "header key of -1"),
    "a header value of -2": (three_raw(raw_record(headers=b"\x02\x02h\x03")), "header value of -2"),
    "a header key that is not UTF-8": (three_raw(raw_record(headers=b"\x02\x02\xff\x01")), "not UTF-8"),
    "the same offset twice": (raw_record(0) + raw_record(0) + raw_record(2), "delta 0 after 0"),
    "falling offsets": (raw_record(2) + raw_record(1) + raw_record(0), "delta 1 after 2"),
    "a negative offset": (raw_record(-1) + raw_record(1) + raw_record(2), "delta -1 after -1"),
    "an offset past the batch's last": (raw_record(0) + raw_record(1) + raw_record(3), "ends at 2"),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_bad_records_are_refused(name, codec):
    payload, message = BAD_RECORDS[name]
    with pytest.raises(CorruptBatchError, match=message):
        read(holding(payload, codec))


BAD_BATCHES = {
    "another format": (patched(a_batch(), "b", 16, 1), "magic 1"),
    "a length below a header's": (patched(a_batch(), ">i", 8, 48), "length 48"),
    "a length past the end": (patched(a_batch(), ">i", 8, 10_000), "there are"),
    "a negative count": (with_fields(a_batch(), record_count=-1), "-1 records"),
    "a negative range": (with_fields(a_batch(), last_offset_delta=-1), "offset delta -1"),
    "more records than bytes": (with_fields(a_batch(), record_count=2**31 - 1), "cannot fit"),
    "an unknown codec": (with_fields(a_batch(), attributes=7), "codec 7"),
    "no bytes but records": (seal(read_header(a_batch()), b""), "cannot fit"),
    "no bytes to decompress": (seal(read_header(a_batch(Codec.GZIP)), b""), "damaged"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_before_its_first_record(name):
    batch, message = BAD_BATCHES[name]
    with pytest.raises(CorruptBatchError, match=message):
        read_records(batch, limit=LIMIT)


def test_a_record_fewer_than_counted_is_noticed_after_the_last():
    with pytest.raises(CorruptBatchError, match="past the end"):
        read(with_fields(a_batch(), record_count=4, last_offset_delta=3))


def test_a_record_more_than_counted_is_noticed_after_the_last():
    with pytest.raises(CorruptBatchError, match="bytes follow"):
        read(with_fields(a_batch(), record_count=2, last_offset_delta=1))


@pytest.mark.parametrize("codec", Codec)
def test_a_reader_that_set_a_limit_is_not_given_more(codec):
    batch = build_batch([Record(0, NOW_MS, None, bytes(10_000))], codec=codec)
    with pytest.raises(DecompressionLimitError):
        read_records(batch, limit=9_999)


def test_the_reader_does_not_check_the_crc():
    assert read(patched(a_batch(), ">I", 17, 0)) == THREE_RECORDS
