"""Any records, any codec: through our own reader, to and from other clients' readers, and as damaged
bytes."""

import tracemalloc

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from penstock.base.errors import ErrorCode
from penstock.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    check_produced,
    crc_holds,
    headers,
    read_header,
    seal,
)
from penstock.records.builder import build_batch, recompress
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatchError
from penstock.records.record import Record, RecordRules, read_records, validate_records
from tests.records.samples import NOW_MS, THREE_RECORDS, a_batch

LIMIT = 1_000_000

codecs = st.sampled_from(Codec)
blobs = st.none() | st.binary(max_size=40) | st.integers(0, 20_000).map(bytes)
# Foreign readers wrap around or fail beyond what a clock can say, so times are real ones, give or take.
timestamps = st.integers(0, 2**45)
header_values = st.none() | st.binary(max_size=80)
record_headers = st.lists(st.tuples(st.text(max_size=8), header_values), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, gaps: bool = False) -> list[Record]:
    contents = draw(st.lists(st.tuples(timestamps, blobs, blobs, record_headers), min_size=1, max_size=12))
    offset = 0
    records = []
    for content in contents:
        offset += draw(st.integers(0, 200)) if gaps else 0
        records.append(Record(offset, *content))
        offset += 1
    return records


@given(records=record_lists(gaps=True), codec=codecs, other=codecs, base_offset=st.integers(0, 2**62))
def test_any_records_survive_any_codec(records, codec, other, base_offset):
    placed = [record._replace(offset=record.offset + base_offset) for record in records]
    batch = build_batch(placed, base_offset=base_offset, codec=codec)
    assert crc_holds(batch, 0, read_header(batch))
    assert list(read_records(batch, limit=LIMIT)) == placed
    assert list(read_records(recompress(batch, other, limit=LIMIT), limit=LIMIT)) == placed


@given(records=record_lists(), codec=codecs)
def test_what_we_build_is_accepted_when_produced(records, codec):
    batch = build_batch(records, codec=codec)
    header = check_produced(memoryview(batch), size_max=LIMIT)
    assert isinstance(header, BatchHeader)
    assert validate_records(batch, header, RecordRules(limit=LIMIT, key_required=False)) is None


def as_ours(foreign_records) -> list[Record]:
    return [
        Record(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((name, value) for name, value in record.headers),
        )
        for record in foreign_records
    ]


@given(records=record_lists(gaps=True), codec=codecs)
def test_other_clients_read_our_batches(records, codec):
    batch = build_batch(records, codec=codec)
    for reader in (AiokafkaBatch, KafkaPythonBatch):
        foreign = reader(bytearray(batch))
        assert foreign.validate_crc()
        assert as_ours(foreign) == records, reader


@given(records=record_lists(), codec=codecs)
def test_we_read_other_clients_batches(records, codec):
    for builder_class in (AiokafkaBuilder, KafkaPythonBuilder):
        builder = builder_class(
            magic=2,
            compression_type=int(codec),
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=2**30,
        )
        for record in records:
            builder.append(
                record.offset,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
        batch = bytes(builder.build())
        assert list(read_records(batch, limit=LIMIT)) == records, builder_class
        assert isinstance(check_produced(batch, size_max=LIMIT), BatchHeader)


@given(records=record_lists())
def test_uncompressed_all_write_the_same_bytes(records):
    ours = build_batch(records, leader_epoch=0)
    builder = KafkaPythonBuilder(2, 0, False, -1, -1, -1, 2**30)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    assert bytes(builder.build())[HEADER_SIZE:] == ours[HEADER_SIZE:]


# -- damage --------------------------------------------------------------------------------------------------

WELL_FILLED = build_batch(
    [Record(offset, NOW_MS + offset, b"key%d" % offset, bytes(300), (("h", b"x"),)) for offset in range(60)]
)


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    """A batch with some bytes changed, cut out or put in; mostly under a CRC that holds nevertheless."""
    origin = draw(st.sampled_from([a_batch(), WELL_FILLED]))
    codec = draw(codecs)
    stage = draw(st.sampled_from(["records", "compressed", "anywhere"]))
    if stage == "records":
        header, payload = read_header(origin), mutated(draw, origin[HEADER_SIZE:])
        return recompress(seal(header, payload), codec, limit=LIMIT)
    batch = recompress(origin, codec, limit=LIMIT)
    if stage == "compressed":
        return seal(read_header(batch), mutated(draw, batch[HEADER_SIZE:]))
    return mutated(draw, batch)


def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(changed)))
        removed = draw(st.integers(0, 4))
        changed[position : position + removed] = draw(st.binary(max_size=6))
    return bytes(changed)


@settings(max_examples=600)
@given(damaged_batches())
@example(b"")
def test_damage_is_an_error_of_ours_and_never_takes_more_memory_than_the_limit(batch):
    tracemalloc.start()
    try:
        consume_every_way(batch)
        assert tracemalloc.get_traced_memory()[1] < 8 * FUZZ_LIMIT
    finally:
        tracemalloc.stop()


FUZZ_LIMIT = 64 * 1024


def consume_every_way(batch: bytes) -> None:
    try:
        for _ in read_records(batch, limit=FUZZ_LIMIT):
            pass
        for _ in headers(batch):
            pass
        recompress(batch, Codec.GZIP, limit=FUZZ_LIMIT)
    except CorruptBatchError:
        pass
    answer = check_produced(memoryview(batch), size_max=LIMIT)
    if isinstance(answer, BatchHeader):
        refusal = validate_records(batch, answer, RecordRules(limit=FUZZ_LIMIT, key_required=True))
        assert refusal is None or isinstance(refusal, ErrorCode)


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_noise_is_an_error_of_ours(noise):
    consume_every_way(noise)
    consume_every_way(seal(read_header(a_batch()), noise))


@settings(max_examples=300)
@given(codecs, st.binary(max_size=200))
def test_noise_behind_a_good_header_is_an_error_of_ours(codec, noise):
    consume_every_way(seal(read_header(a_batch(codec)), noise))


def test_damage_is_found_where_it_matters():
    # The fuzzing above would pass if nothing were ever read; here is what it starts from.
    assert list(read_records(a_batch(), limit=LIMIT)) == THREE_RECORDS
