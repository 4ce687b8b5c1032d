"""From offsets to tasks, and what filters leave."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from penstock.base.ids import TopicPartition
from penstock.spark.planning import (
    ANSWER_BYTES,
    Lost,
    OffsetRange,
    answer_bytes_min,
    below_start,
    gathered,
    limited,
    ranges,
    split,
)
from penstock.spark.pushdown import Narrowing, narrow

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

POSITIONS = st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 10_000), min_size=1)
RANGES = st.lists(
    st.builds(lambda each, start, size: OffsetRange(each, start, start + size), st.sampled_from([A0, A1]),
              st.integers(0, 100), st.integers(1, 1000)), min_size=1, max_size=5)  # fmt: skip


def test_a_limit_is_shared_by_backlog():
    assert limited({A0: 0, A1: 100}, {A0: 900, A1: 200}, 100) == {A0: 90, A1: 110}


def test_every_partition_with_a_backlog_gets_a_share_of_the_limit():
    assert limited({A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}, 10)[A1] == 1


@given(start=POSITIONS, latest=POSITIONS, most=st.integers(1, 5000))
def test_a_limit_never_goes_back_nor_past_the_end(start: dict, latest: dict, most: int):
    latest = {each: max(offset, start.get(each, 0)) for each, offset in latest.items()}
    end = limited(start, latest, most)
    assert set(end) == set(latest)
    assert all(start.get(each, 0) <= end[each] <= latest[each] for each in end)
    read = sum(end[each] - start.get(each, 0) for each in end)
    assert read <= most + len(end)
    # It moves on: a limit that let nothing through would stop a stream for good.
    assert read > 0 or latest == {each: start.get(each, 0) for each in latest}


def test_partitions_that_were_not_there_before_begin_at_0():
    assert ranges({A0: 5}, {A0: 7, A1: 2}) == [OffsetRange(A0, 5, 7), OffsetRange(A1, 0, 2)]
    assert ranges({A0: 5}, {A0: 5}) == []


def test_what_lies_below_a_logs_start_is_lost():
    wanted = [OffsetRange(A0, 5, 10), OffsetRange(A1, 0, 4), OffsetRange(B0, 1, 3)]
    left, lost = below_start(wanted, {A0: 7, A1: 9, B0: 0})
    assert left == [OffsetRange(A0, 7, 10), OffsetRange(B0, 1, 3)]
    assert [each[:3] for each in lost] == [(A0, 5, 7), (A1, 0, 4)]
    assert str(Lost(A0, 5, 7, "deleted")) == "offsets 5 to 6 of topic a, partition 0: deleted"


@given(wanted=RANGES, tasks_min=st.integers(0, 50), size_max=st.integers(0, 300))
def test_pieces_are_the_same_offsets_in_the_same_order(wanted: list, tasks_min: int, size_max: int):
    pieces = split(wanted, tasks_min=tasks_min, size_max=size_max)
    assert [(p.partition, o) for p in pieces for o in range(p.start, p.end)] == [
        (w.partition, o) for w in wanted for o in range(w.start, w.end)
    ]
    assert all(piece.size > 0 for piece in pieces)
    assert len(pieces) >= min(tasks_min, sum(each.size for each in wanted))
    if size_max:
        assert max(piece.size for piece in pieces) <= size_max


def test_one_task_per_partition_unless_told_otherwise():
    wanted = [OffsetRange(A0, 0, 100), OffsetRange(A1, 0, 1)]
    assert split(wanted, tasks_min=0, size_max=0) == wanted
    assert len(split(wanted, tasks_min=4, size_max=0)) == 4


@given(wanted=RANGES, size_min=st.integers(0, 2000))
def test_small_ranges_share_a_task(wanted: list, size_min: int):
    tasks = gathered(wanted, size_min=size_min)
    assert [piece for task in tasks for piece in task] == wanted
    assert all(sum(piece.size for piece in task) >= size_min for task in tasks[:-1])
    # No task takes more in once it has enough.
    assert all(sum(piece.size for piece in task[:-1]) < max(size_min, 1) for task in tasks)


# -- filters


def test_equalities_choose_topics_and_partitions():
    left = narrow([EqualTo(("topic",), "a"), In(("partition",), (0, 2))])
    assert left.keeps(A0)
    assert not left.keeps(A1)
    assert not left.keeps(B0)
    assert narrow([EqualTo(("topic",), "a"), EqualTo(("topic",), "b")]).topics == frozenset()


def test_offsets_are_cut_at_both_ends():
    left = narrow(
        [GreaterThan(("offset",), 4), LessThanOrEqual(("offset",), 9), GreaterThanOrEqual(("offset",), 2)]
    )
    assert left.narrowed(OffsetRange(A0, 0, 100)) == OffsetRange(A0, 5, 10)
    assert left.narrowed(OffsetRange(A0, 20, 100)).size == 0
    assert left.narrowed(OffsetRange(A0, 0, 3)).size == 0
    assert narrow([LessThan(("offset",), 9)]).offset_max == 8
    assert narrow([EqualTo(("offset",), 3)]).narrowed(OffsetRange(A0, 0, 9)) == OffsetRange(A0, 3, 4)


def test_only_the_lower_end_of_time_counts():
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    at_ms = int(moment.timestamp() * 1000)
    lowest = narrow([GreaterThanOrEqual(("timestamp",), moment)]).timestamp_ms_min
    assert lowest is not None
    assert at_ms - 2 <= lowest <= at_ms
    assert narrow([LessThan(("timestamp",), moment)]) == Narrowing()
    # A time without a zone could be any.
    assert narrow([GreaterThan(("timestamp",), datetime(2026, 1, 1))]) == Narrowing()


def test_what_is_not_understood_leaves_everything():
    filters = [
        Not(EqualTo(("partition",), 0)),
        IsNull(("key",)),
        StringStartsWith(("topic",), "a"),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        GreaterThan(("offset",), None),
    ]
    assert narrow(filters) == Narrowing()


def test_long_answers_are_asked_for_only_where_there_is_enough_left():
    def least(*, left: int, read: int = 1000, bytes_max: int = 8 << 20) -> int:
        return answer_bytes_min(bytes_read=1 << 20, offsets_read=read, offsets_left=left, bytes_max=bytes_max)

    assert least(left=4000) == ANSWER_BYTES
    assert least(left=3999) == 1, "a broker would wait for what never comes"
    assert least(left=4000, read=100_000) == 1, "the records are small"
    assert least(left=4000, read=0) == 1, "nothing is known"
    assert least(left=4000, bytes_max=1 << 20) == 1, "that much does not fit"
