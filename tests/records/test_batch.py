"""The header from outside: reading, walking, checking, placing, restamping."""

import pytest

from penstock.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    crc_holds,
    headers,
    place,
    read_header,
    restamp,
    seal,
)
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record, read_records
from tests.records.samples import NOW_MS, THREE_RECORDS, a_batch, patched, with_fields


def test_every_field_of_a_header_is_read_from_its_place():
    batch = build_batch(
        [Record(40, NOW_MS, b"k", b"v"), Record(42, NOW_MS + 5, b"k", b"v")],
        base_offset=40,
        leader_epoch=3,
        codec=Codec.LZ4,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=11,
        transactional=True,
    )
    header = read_header(b"before" + batch, 6)
    assert header._replace(crc=0) == BatchHeader(
        base_offset=40,
        batch_length=len(batch) - 12,
        leader_epoch=3,
        magic=2,
        crc=0,
        attributes=Codec.LZ4 | 0x10,
        last_offset_delta=2,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 5,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=11,
        record_count=2,
    )


def test_what_follows_from_the_fields():
    header = read_header(a_batch(Codec.ZSTD))._replace(base_offset=100, base_sequence=5, producer_id=9)
    assert header.size == len(a_batch(Codec.ZSTD))
    assert (header.last_offset, header.next_offset) == (102, 103)
    assert header.last_sequence == 7
    assert header.codec is Codec.ZSTD
    assert header.has_producer
    assert header.attributes == Codec.ZSTD
    assert header.delete_horizon_ms is None


@pytest.mark.parametrize(
    ("attributes", "names"),
    [(0x08, "log_append_time"), (0x10, "is_transactional"), (0x20, "is_control")],
)
def test_each_attribute_bit_has_its_own_meaning(attributes, names):
    header = read_header(a_batch())._replace(attributes=attributes)
    meanings = ("log_append_time", "is_transactional", "is_control")
    assert [name for name in meanings if getattr(header, name)] == [names]


def test_a_batch_without_producer_has_no_sequence():
    header = read_header(a_batch())
    assert not header.has_producer
    assert header.last_sequence == -1


def test_sequence_numbers_start_again_at_zero_after_the_largest():
    header = read_header(a_batch())._replace(base_sequence=2**31 - 2)
    assert header.last_offset_delta == 2
    assert header.last_sequence == 0
    assert header._replace(base_sequence=2**31 - 3).last_sequence == 2**31 - 1


def test_an_unknown_codec_is_corruption_to_a_reader():
    with pytest.raises(CorruptBatchError, match="codec 6"):
        _ = read_header(with_fields(a_batch(), attributes=6)).codec


def test_a_header_cannot_be_read_from_fewer_bytes_than_it_has():
    with pytest.raises(CorruptBatchError, match="61 bytes; there are 60"):
        read_header(a_batch()[: HEADER_SIZE - 1])


def test_walking_yields_complete_batches_and_stops_before_a_partial_one():
    first, second = a_batch(), a_batch(Codec.GZIP)
    buffer = first + second + first[:-1]
    assert list(headers(buffer)) == [(0, read_header(first)), (len(first), read_header(second))]
    assert [position for position, _ in headers(first + second, len(first))] == [len(first)]
    assert list(headers(first[:40])) == []
    assert list(headers(b"")) == []


@pytest.mark.parametrize(
    "nonsense", [bytes(100), patched(a_batch(), "b", 16, 1), patched(a_batch(), ">i", 8, 48)]
)
def test_walking_into_nonsense_raises(nonsense):
    walk = headers(a_batch() + nonsense)
    next(walk)
    with pytest.raises(CorruptBatchError):
        next(walk)


def test_the_crc_covers_everything_from_the_attributes_on():
    batch = a_batch()
    header = read_header(batch)
    assert crc_holds(b"xx" + batch + b"yy", 2, header)
    for position in range(len(batch)):
        flipped = bytearray(batch)
        flipped[position] ^= 0x10
        # The length and the CRC itself are taken from the header that is passed in.
        assert crc_holds(bytes(flipped), 0, header) == (position < 21), position


def test_the_crc_of_an_incomplete_batch_does_not_hold():
    batch = a_batch()
    assert not crc_holds(batch[:-1], 0, read_header(batch))
    assert not crc_holds(batch, 0, read_header(batch)._replace(batch_length=-12, crc=0))


def test_placing_changes_offset_and_epoch_and_copies_nothing():
    batch = a_batch()
    told, (start, rest) = place(memoryview(batch), read_header(batch), base_offset=1234, leader_epoch=56)
    assert isinstance(rest, memoryview)
    assert rest.obj is batch
    placed = start + rest
    header = read_header(placed)
    assert told == header
    assert header == read_header(batch)._replace(base_offset=1234, leader_epoch=56)
    assert crc_holds(placed, 0, header)
    assert [record.offset for record in read_records(placed, limit=1_000)] == [1234, 1235, 1236]


def test_placing_leaves_out_what_a_request_carries_after_the_batch():
    batch = a_batch()
    _, (start, rest) = place(memoryview(batch + b"tail"), read_header(batch), base_offset=0, leader_epoch=-1)
    assert start + rest == batch


@pytest.mark.parametrize("codec", Codec)
def test_restamping_gives_every_record_the_brokers_time(codec):
    stamped = restamp(memoryview(a_batch(codec) + b"tail"), max_timestamp=NOW_MS + 99)
    header = read_header(stamped)
    assert header.log_append_time
    assert header.codec is codec
    assert crc_holds(stamped, 0, header)
    assert header.size == len(stamped)
    assert {record.timestamp for record in read_records(stamped, limit=1_000)} == {NOW_MS + 99}
    assert [record.key for record in read_records(stamped, limit=1_000)] == [r.key for r in THREE_RECORDS]


def test_sealing_fills_in_length_and_crc():
    batch = a_batch()
    spoiled = read_header(batch)._replace(batch_length=-5, crc=0, magic=0)
    assert seal(spoiled, batch[HEADER_SIZE:]) == batch
