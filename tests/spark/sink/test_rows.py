"""Arrow batches as rows of records, without Spark or a broker."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.records.columns import BatchWriter, Writing
from penstock.records.murmur2 import partition_of_key
from penstock.records.record import Record, read_records
from penstock.spark.sink.rows import RowError, Spread

LIMIT = 1 << 20
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def spread(*, topic: str | None = "t", partitions: int = 4) -> Spread:
    return Spread(lambda _: partitions, topic=topic, first=lambda count: min(1, count - 1))


def records(taker: Spread, batch: pa.RecordBatch) -> dict[tuple[str, int], list[Record]]:
    """What the rows become, by partition."""
    rows, shares = taker.take(batch)
    found = {}
    for share in shares:
        writer = BatchWriter(bytes_max=LIMIT)
        assert writer.add(rows, share.which, 0, now_ms=5) == len(share.which)
        found[tuple(share.partition)] = list(read_records(writer.take(Writing()), limit=LIMIT))
    return found


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.string(),
        pa.large_binary(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
    ],
    ids=str,
)
def test_values_of_every_kind_of_bytes_arrive(kind: pa.DataType):
    values = ["a", None, "", "long enough not to be kept in place"]
    array = pa.array(values, pa.string()).cast(kind)
    (only,) = records(spread(), pa.record_batch({"value": array})).values()
    assert [each.value for each in only] == [None if each is None else each.encode() for each in values]


def test_a_slice_is_read_from_its_own_first_row():
    batch = pa.record_batch(
        {
            "key": pa.array([None if n % 3 else b"k%d" % n for n in range(20)]),
            "value": pa.array([b"v%d" % n for n in range(20)]),
            "headers": pa.array([[("h", b"%d" % n)] if n % 2 else None for n in range(20)], HEADERS),
        }
    ).slice(7, 9)
    seen = [each for part in records(spread(), batch).values() for each in part]
    assert {each.value for each in seen} == {b"v%d" % n for n in range(7, 16)}
    assert {each.key for each in seen} == {None, b"k9", b"k12", b"k15"}
    assert all(each.headers == ((("h", each.value[1:]),) if int(each.value[1:]) % 2 else ()) for each in seen)


def test_rows_of_a_partition_keep_their_order_and_keys_choose_as_everywhere():
    keys = [b"key%d" % (n % 17) for n in range(500)]
    batch = pa.record_batch({"key": pa.array(keys), "value": pa.array([b"%d" % n for n in range(500)])})
    for (_, index), part in records(spread(), batch).items():
        assert all(partition_of_key(each.key, 4) == index for each in part)
        numbers = [int(each.value) for each in part]
        assert numbers == sorted(numbers)


def test_a_row_s_own_partition_comes_before_its_key_s():
    batch = pa.record_batch(
        {
            "key": pa.array([b"a", b"a", None]),
            "value": pa.array([b"0", b"1", b"2"]),
            "partition": pa.array([3, None, 0], pa.int32()),
        }
    )
    found = records(spread(), batch)
    assert found["t", 3][0].value == b"0"
    assert b"1" in [each.value for each in found["t", partition_of_key(b"a", 4)]]
    assert found["t", 0][-1].value == b"2"


def test_rows_without_a_key_stay_together_and_go_elsewhere_once_a_batch_is_full():
    batch = pa.record_batch({"value": pa.array([b"x"] * 10)})
    taker = spread()
    ((first, which),) = taker.take(batch)[1]
    assert (first.partition, list(which)) == (1, list(range(10)))
    taker.turn(first)
    assert taker.take(batch)[1][0].partition.partition == 2


def test_topics_share_a_batch_of_rows_each_with_its_own_in_order():
    topics = ["a", "b", "c", "b", "a"]
    batch = pa.record_batch({"value": pa.array([b"%d" % n for n in range(5)]), "topic": pa.array(topics)})
    found = records(spread(topic=None, partitions=1), batch)
    assert {key: [int(each.value) for each in part] for key, part in found.items()} == {
        ("a", 0): [0, 4],
        ("b", 0): [1, 3],
        ("c", 0): [2],
    }


def test_what_lies_under_a_list_that_is_null_is_no_header():
    values = pa.StructArray.from_arrays([pa.array(["a", "b"]), pa.array([b"1", b"2"])], ["key", "value"])
    lists = pa.ListArray.from_arrays(
        pa.array(np.array([0, 1, 2], dtype=np.int32)), values, mask=pa.array([True, False])
    )
    batch = pa.record_batch({"value": pa.array([b"x", b"y"]), "headers": lists})
    (only,) = records(spread(), batch).values()
    assert [each.headers for each in only] == [(), (("b", b"2"),)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"topic": pa.array(["t", None])}, "a row has no topic"),
        (
            {"partition": pa.array([0, 4], pa.int32())},
            "names partition 4 of topic t, which has partitions 0 to 3",
        ),
        ({"partition": pa.array([0, -1], pa.int32())}, "names partition -1"),
        ({"headers": pa.array([[(None, b"")], None], HEADERS)}, "a header without a key"),
        ({"headers": pa.array([[None], None], HEADERS)}, "a header that is null"),
    ],
)
def test_a_row_no_record_can_be_made_of_is_refused(columns: dict[str, pa.Array], told: str):
    batch = pa.record_batch({"value": pa.array([b"x", b"y"]), "topic": pa.array(["t", "t"]), **columns})
    with pytest.raises(RowError, match=told):
        spread(topic=None).take(batch)
