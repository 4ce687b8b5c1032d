"""New batches: what the header says of the records, batches under another codec, batches that fill."""

import pytest

from penstock.records.batch import CONTROL, TRANSACTIONAL, crc_holds, read_header
from penstock.records.builder import build_batch, build_plain_batch, recompress
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatchError, DecompressionLimitError
from penstock.records.record import Record, read_records
from tests.records.samples import NOW_MS, THREE_RECORDS, a_batch

LIMIT = 1_000_000


def test_the_header_follows_from_the_records():
    records = [Record(10, 500, None, b"a"), Record(11, 900, None, b"b"), Record(14, 100, None, b"c")]
    header = read_header(build_batch(records, base_offset=10))
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (10, 4, 3)
    assert (header.base_timestamp, header.max_timestamp) == (500, 900)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.leader_epoch, header.attributes) == (-1, 0)


def test_every_attribute_can_be_set():
    header = read_header(
        build_batch(
            THREE_RECORDS,
            codec=Codec.SNAPPY,
            transactional=True,
            control=True,
            log_append_time=True,
            delete_horizon_ms=NOW_MS + 10,
        )
    )
    assert header.codec is Codec.SNAPPY
    assert header.is_transactional
    assert header.is_control
    assert header.log_append_time
    assert header.delete_horizon_ms == NOW_MS + 10


def test_a_delete_horizon_moves_no_timestamp():
    batch = build_batch(THREE_RECORDS, delete_horizon_ms=NOW_MS + 1_000_000)
    assert list(read_records(batch, limit=LIMIT)) == THREE_RECORDS
    assert read_header(batch).max_timestamp == THREE_RECORDS[-1].timestamp


def test_compaction_keeps_range_and_newest_time_of_what_it_thins_out():
    kept = [record._replace(offset=record.offset + 40) for record in THREE_RECORDS[1:2]]
    batch = build_batch(
        kept, base_offset=40, last_offset_delta=2, max_timestamp=NOW_MS + 2, producer_id=5, base_sequence=8
    )
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.last_sequence) == (40, 42, 10)
    assert header.max_timestamp == NOW_MS + 2
    assert list(read_records(batch, limit=LIMIT)) == kept


def test_an_empty_batch_remembers_its_producer_and_is_a_header_alone():
    batch = build_batch(
        [],
        base_offset=40,
        last_offset_delta=2,
        max_timestamp=NOW_MS,
        producer_id=5,
        producer_epoch=1,
        base_sequence=8,
        codec=Codec.GZIP,
    )
    header = read_header(batch)
    assert (len(batch), header.record_count, header.codec) == (61, 0, Codec.NONE)
    assert (header.last_offset, header.last_sequence, header.max_timestamp) == (42, 10, NOW_MS)
    assert header.base_timestamp == -1
    assert crc_holds(batch, 0, header)


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("value", [None, b"", b"v", bytes(2000)])
def test_a_plain_batch_is_the_batch_of_its_records(count, value):
    pairs = [(b"k" * number, value) for number in range(count)]
    records = [Record(number, NOW_MS, *pair) for number, pair in enumerate(pairs)]
    assert build_plain_batch(pairs, timestamp=NOW_MS) == build_batch(records)
    assert build_plain_batch(
        pairs, timestamp=NOW_MS, attributes=TRANSACTIONAL | CONTROL, producer_id=5, producer_epoch=6
    ) == build_batch(records, transactional=True, control=True, producer_id=5, producer_epoch=6)


def test_offsets_that_do_not_rise_are_our_own_bug():
    with pytest.raises(AssertionError, match="rising"):
        build_batch([Record(1, 0, None, None), Record(1, 0, None, None)])


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("origin", Codec)
def test_recompressing_changes_the_codec_and_nothing_else(origin, codec):
    batch = build_batch(THREE_RECORDS, codec=origin, transactional=True, producer_id=4, base_sequence=9)
    other = recompress(memoryview(batch + b"tail"), codec, limit=LIMIT)
    assert list(read_records(other, limit=LIMIT)) == THREE_RECORDS
    header = read_header(other)
    assert crc_holds(other, 0, header)
    assert header.codec is codec
    assert header.is_transactional
    assert header[6:] == read_header(batch)[6:]


def test_recompressing_obeys_the_level_and_the_limit():
    batch = build_batch([Record(0, 0, None, bytes(range(256)) * 200)])
    fast, thorough = (recompress(batch, Codec.ZSTD, level, limit=LIMIT) for level in (-50, 19))
    assert len(thorough) < len(fast)
    with pytest.raises(DecompressionLimitError):
        recompress(fast, Codec.LZ4, limit=50_000)


def test_an_emptied_batch_can_be_recompressed():
    batch = build_batch([], last_offset_delta=3)
    assert recompress(batch, Codec.ZSTD, limit=LIMIT) == batch


def test_a_batch_cut_short_is_not_made_whole_by_recompressing():
    with pytest.raises(CorruptBatchError):
        recompress(a_batch()[:-1], Codec.LZ4, limit=LIMIT)
