"""Records as columns and back: the compiled loops and the ones in Python are held to the same."""

import random
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records import columns, plain_columns
from penstock.records.batch import crc_holds, read_header
from penstock.records.builder import build_batch
from penstock.records.columns import (
    BatchWriter,
    BinaryColumn,
    ColumnReader,
    HeaderColumn,
    NewRows,
    RecordColumns,
    Writing,
    choose_partitions,
)
from penstock.records.compression import Codec
from penstock.records.errors import CorruptBatchError
from penstock.records.murmur2 import partition_of_key
from penstock.records.record import Record, payload_of, read_records

LIMIT = 1 << 20

IMPLEMENTATIONS = [
    pytest.param(plain_columns, id="python"),
    pytest.param(columns.compiled, id="compiled", marks=pytest.mark.needs("cc")),
]
both = pytest.mark.parametrize("code", IMPLEMENTATIONS)

TEXTS = st.one_of(st.none(), st.binary(max_size=200))
HEADERS = st.lists(st.tuples(st.text(max_size=10), TEXTS), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 1000))
    records = []
    for _ in range(draw(st.integers(1, 20))):
        timestamp = draw(st.integers(-1, 2**45))
        records.append(Record(offset, timestamp, draw(TEXTS), draw(TEXTS), draw(HEADERS)))
        offset += draw(st.integers(1, 300))
    return records


def batch_of(records: list[Record], **more: Any) -> bytes:
    return build_batch(records, base_offset=records[0].offset, **more)


def elements(column: BinaryColumn | None, count: int) -> list[bytes | None]:
    assert column is not None
    ends = memoryview(column.ends).cast("B").cast("i")
    data = bytes(memoryview(column.data))
    valid = None if column.validity is None else bytes(memoryview(column.validity))
    return [
        None if valid is not None and not valid[row // 8] >> row % 8 & 1 else data[ends[row] : ends[row + 1]]
        for row in range(count)
    ]


def records_of(rows: RecordColumns) -> list[Record]:
    """What columns say, as records."""
    offsets = memoryview(rows.offsets).cast("B").cast("q") if rows.row_count else []
    times = memoryview(rows.timestamps_us).cast("B").cast("q") if rows.row_count else []
    assert rows.headers is not None
    ends = memoryview(rows.headers.ends).cast("B").cast("i")
    names = elements(rows.headers.keys, ends[-1])
    contents = elements(rows.headers.values, ends[-1])
    keys, values = elements(rows.keys, rows.row_count), elements(rows.values, rows.row_count)
    found = []
    for row in range(rows.row_count):
        headers = tuple(
            (names[each].decode(), contents[each])  # type: ignore[union-attr]
            for each in range(ends[row], ends[row + 1])
        )
        found.append(Record(offsets[row], times[row] // 1000, keys[row], values[row], headers))
    return found


def reader(code: Any) -> ColumnReader:
    return ColumnReader(keys=True, values=True, headers=True, implementation=code)


@pytest.mark.needs("cc")
def test_the_extension_is_built_where_the_suite_runs():
    assert columns.IS_COMPILED


@both
@given(lists=st.lists(record_lists(), max_size=3), codec=st.sampled_from(list(Codec)))
@settings(max_examples=60, deadline=None)
def test_columns_hold_what_the_batches_held(code: Any, lists: list[list[Record]], codec: Codec):
    gathering = reader(code)
    for records in lists:
        batch = batch_of(records, codec=codec)
        gathering.add(batch, read_header(batch), bytes_max=LIMIT)
    assert gathering.count == sum(map(len, lists))
    assert records_of(gathering.take()) == [record for records in lists for record in records]
    assert gathering.count == 0
    assert records_of(gathering.take()) == []


@both
@given(records=record_lists(), cut=st.tuples(st.integers(0, 6000), st.integers(0, 6000)))
@settings(max_examples=60, deadline=None)
def test_only_offsets_of_the_range_are_taken(code: Any, records: list[Record], cut: tuple[int, int]):
    batch = batch_of(records)
    gathering = reader(code)
    gathering.add(batch, read_header(batch), from_offset=cut[0], until_offset=cut[1], bytes_max=LIMIT)
    assert records_of(gathering.take()) == [each for each in records if cut[0] <= each.offset < cut[1]]


@both
def test_rows_that_were_taken_stay_as_they_are_when_more_come(code: Any):
    reader = ColumnReader(headers=True, implementation=code)
    taken = []
    # Large and small in turn: what comes begins with room for as much as was taken before.
    for size in (5000, 1, 90_000, 0, 5000):
        records = [
            Record(0, 1, b"k" * size, b"v" * size, (("h", b"x" * size),)),
            Record(1, 2, None, None, ()),
        ]
        reader.add(batch := batch_of(records), read_header(batch), bytes_max=LIMIT)
        taken.append((records, reader.take()))
    assert all(records_of(rows) == records for records, rows in taken)


@both
def test_the_append_time_is_every_records_time(code: Any):
    batch = batch_of([Record(5, 10, b"k", b"v", ()), Record(6, 20, None, None, ())], log_append_time=True)
    gathering = reader(code)
    gathering.add(batch, read_header(batch), bytes_max=LIMIT)
    assert [each.timestamp for each in records_of(gathering.take())] == [20, 20]


@both
def test_what_is_not_wanted_is_not_there(code: Any):
    batch = batch_of([Record(0, 1, b"k", b"v", (("h", b"x"),))])
    gathering = ColumnReader(keys=False, values=True, headers=False, implementation=code)
    gathering.add(batch, read_header(batch), bytes_max=LIMIT)
    rows = gathering.take()
    assert rows.keys is None
    assert rows.headers is None
    assert elements(rows.values, 1) == [b"v"]


@both
def test_times_beyond_what_microseconds_can_say_stay_at_their_end(code: Any):
    batch = batch_of([Record(0, 2**62, None, None, ())])
    gathering = reader(code)
    gathering.add(batch, read_header(batch), bytes_max=LIMIT)
    assert memoryview(gathering.take().timestamps_us).cast("B").cast("q")[0] == 2**63 - 1


@pytest.mark.needs("cc")
@given(records=record_lists(), seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_both_refuse_the_same_damage(records: list[Record], seed: int):
    batch = batch_of(records)
    header = read_header(batch)
    block = bytearray(payload_of(batch, header, limit=LIMIT))
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        block[chance.randrange(len(block))] = chance.randrange(256)
    if chance.random() < 0.3:
        del block[chance.randrange(len(block)) :]
    arguments = (bytes(block), header.record_count, header.base_offset, header.base_timestamp, None)
    outcomes = []
    for code in (plain_columns, columns.compiled):
        gathering = reader(code)
        try:
            gathering._columns.add(*arguments, header.last_offset_delta, 0, 2**63 - 1)
            outcomes.append(records_of(gathering.take()))
        except code.CorruptError:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


@both
def test_a_damaged_batch_is_named_by_its_offset(code: Any):
    batch = bytearray(batch_of([Record(7, 1, b"k", b"v", ())]))
    batch[61] = 0x7E
    with pytest.raises(CorruptBatchError, match=r"offset 7|past the end"):
        reader(code).add(batch, read_header(batch), bytes_max=LIMIT)


# -- back to records


def column_of(parts: list[bytes | None]) -> BinaryColumn:
    column = plain_columns._BinaryColumn()
    for part in parts:
        column.append(part)
    return BinaryColumn(*column.take())


def rows_of(records: list[Record]) -> NewRows:
    names = [name.encode() for record in records for name, _ in record.headers]
    contents = [value for record in records for _, value in record.headers]
    ends = array("i", [0])
    for record in records:
        ends.append(ends[-1] + len(record.headers))
    return NewRows(
        len(records),
        column_of([each.key for each in records]),
        column_of([each.value for each in records]),
        HeaderColumn(ends.tobytes(), column_of(list(names)), column_of(contents)),
        array("q", [each.timestamp for each in records]).tobytes(),
    )


@both
@given(records=record_lists(), codec=st.sampled_from(list(Codec)), bytes_max=st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_batches_hold_what_the_columns_held(code: Any, records: list[Record], codec: Codec, bytes_max: int):
    rows = rows_of(records)
    which = array("i", range(len(records))).tobytes()
    writer = BatchWriter(bytes_max=bytes_max, implementation=code)
    writing = Writing(codec=codec, producer_id=9, producer_epoch=2, transactional=True)
    read: list[Record] = []
    start = 0
    while start < len(records):
        start = writer.add(rows, which, start, now_ms=1)
        count = writer.count
        assert count == 1 or writer.bytes_count <= bytes_max
        batch = writer.take(writing, base_sequence=40)
        header = read_header(batch)
        assert crc_holds(batch, 0, header)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 40)
        assert header.is_transactional
        assert header.codec is codec
        assert header.record_count == count == header.last_offset_delta + 1
        found = list(read_records(batch, limit=LIMIT))
        assert header.max_timestamp == max(each.timestamp for each in found)
        read += found
    assert [each[1:] for each in read] == [each[1:] for each in records]


@both
def test_rows_are_taken_in_the_order_asked_for(code: Any):
    rows = rows_of([Record(each, each, b"%d" % each, None, ()) for each in range(5)])
    writer = BatchWriter(bytes_max=1000, implementation=code)
    assert writer.add(rows, array("i", [4, 0, 2]).tobytes(), 0, now_ms=1) == 3
    assert [each.key for each in read_records(writer.take(Writing()), limit=LIMIT)] == [b"4", b"0", b"2"]


@both
def test_rows_without_a_time_get_the_present_one(code: Any):
    rows = rows_of([Record(0, 3, None, b"v", ())])._replace(timestamps_ms=None, headers=None, keys=None)
    writer = BatchWriter(bytes_max=1000, implementation=code)
    writer.add(rows, array("i", [0]).tobytes(), 0, now_ms=77)
    assert list(read_records(writer.take(Writing()), limit=LIMIT)) == [Record(0, 77, None, b"v", ())]


@both
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"row_count": 3}, "do not fit"),
        ({"keys": BinaryColumn(None, array("i", [0, 5, 2]).tobytes(), b"abcdef")}, "do not fit"),
        ({"keys": BinaryColumn(None, array("i", [0, 2, 9]).tobytes(), b"abcdef")}, "do not fit"),
        ({"keys": BinaryColumn(b"", array("i", [0, 1, 2]).tobytes(), b"ab")}, "do not fit"),
        ({"timestamps_ms": b""}, "fewer timestamps"),
    ],
)
def test_columns_that_do_not_fit_their_rows_are_refused(code: Any, change: dict[str, Any], problem: str):
    rows = rows_of([Record(0, 1, b"a", b"b", ()), Record(1, 1, b"c", b"d", ())])._replace(**change)
    writer = BatchWriter(bytes_max=1000, implementation=code)
    with pytest.raises(ValueError, match=problem):
        writer.add(rows, array("i", [0, 1]).tobytes(), 0, now_ms=1)


@both
@pytest.mark.parametrize("which", [[2], [-1]])
def test_a_row_that_is_not_there_is_refused(code: Any, which: list[int]):
    rows = rows_of([Record(0, 1, b"a", b"b", ()), Record(1, 1, b"c", b"d", ())])
    with pytest.raises(ValueError, match="no such row"):
        BatchWriter(bytes_max=1000, implementation=code).add(rows, array("i", which).tobytes(), 0, now_ms=1)


@both
def test_a_header_without_a_key_is_refused(code: Any):
    rows = rows_of([Record(0, 1, b"a", b"b", (("h", b"x"),))])
    assert rows.headers is not None
    rows = rows._replace(headers=rows.headers._replace(keys=column_of([None])))
    with pytest.raises(ValueError, match="no key"):
        BatchWriter(bytes_max=1000, implementation=code).add(rows, array("i", [0]).tobytes(), 0, now_ms=1)


@both
@given(keys=st.lists(TEXTS, max_size=30), count=st.integers(1, 1000))
@settings(max_examples=100, deadline=None)
def test_a_key_goes_where_every_client_sends_it(code: Any, keys: list[bytes | None], count: int):
    chosen = choose_partitions(
        column_of(keys), len(keys), partition_count=count, otherwise=-1, implementation=code
    )
    numbers = list(memoryview(chosen).cast("B").cast("i")) if keys else []
    assert numbers == [-1 if key is None else partition_of_key(key, count) for key in keys]
