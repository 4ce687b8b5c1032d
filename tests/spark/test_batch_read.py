"""`spark.read.format("penstock")` on real Spark and a real broker."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from penstock.client.producer import NewRecord
from penstock.records.compression import Codec
from penstock.testing import EmbeddedBroker
from tests.spark.failing import problem
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

Read = Callable[..., "DataFrame"]
NOW_MS = 1_760_000_000_000


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


def values(frame: "DataFrame") -> list[str]:
    return [bytes(row.value).decode() for row in frame.orderBy("topic", "partition", "offset").collect()]


def test_every_field_of_every_codec_arrives(read: Read, topics: Topics, topic: str):
    topics.create(topic, partitions=2)
    expected = []
    for number, codec in enumerate(Codec):
        records = [
            NewRecord(b"k%d" % number, b"x" * 300, (("a", b"1"), ("b", None)), NOW_MS + number, partition=0),
            NewRecord(None, b"v%d" % number, (), NOW_MS + number, partition=1),
            NewRecord(b"", None, (("c", b""),), NOW_MS + number, partition=1),
        ]
        topics.write(topic, records, codec=codec)
        expected += [
            (0, number, b"k%d" % number, b"x" * 300, [("a", b"1"), ("b", None)], NOW_MS + number),
            (1, 2 * number, None, b"v%d" % number, None, NOW_MS + number),
            (1, 2 * number + 1, b"", None, [("c", b"")], NOW_MS + number),
        ]
    rows = read(subscribe=topic, includeHeaders="true").collect()
    found = [
        (
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            None
            if not row.headers
            else [(h.key, None if h.value is None else bytes(h.value)) for h in row.headers],
            int(row.timestamp.replace(tzinfo=UTC).timestamp() * 1000),
        )
        for row in rows
    ]
    assert sorted(found, key=lambda each: each[:2]) == sorted(expected, key=lambda each: each[:2])
    assert {(row.topic, row.timestampType) for row in rows} == {(topic, 0)}


def test_the_source_is_found_without_a_call_and_can_be_registered(
    spark: "SparkSession", read: Read, topics: Topics, topic: str
):
    import penstock.spark

    topics.create(topic)
    topics.write_values(topic, ["a"])
    assert values(read(subscribe=topic)) == ["a"]
    penstock.spark.register(spark)
    assert values(read(subscribe=topic)) == ["a"]


def test_offsets_and_times_choose_what_is_read(read: Read, topics: Topics, topic: str):
    topics.create(topic, partitions=2)
    topics.write(
        topic, [NewRecord(None, b"%d" % each, timestamp=NOW_MS + each, partition=0) for each in range(10)]
    )
    topics.write(topic, [NewRecord(None, b"x%d" % each, timestamp=NOW_MS, partition=1) for each in range(3)])
    start, end = f'{{"{topic}": {{"0": 7, "1": -2}}}}', f'{{"{topic}": {{"0": -1, "1": 1}}}}'
    assert values(read(subscribe=topic, startingOffsets=start, endingOffsets=end)) == ["7", "8", "9", "x0"]
    assert values(read(assign=f'{{"{topic}": [0]}}', startingTimestamp=str(NOW_MS + 8))) == ["8", "9"]
    assert values(read(assign=f'{{"{topic}": [0]}}', endingTimestamp=str(NOW_MS + 2))) == ["0", "1"]
    by_time = f'{{"{topic}": {{"0": {NOW_MS + 9}, "1": {NOW_MS}}}}}'
    assert values(read(subscribe=topic, startingOffsetsByTimestamp=by_time)) == ["9", "x0", "x1", "x2"]
    late = {"subscribe": topic, "startingTimestamp": str(NOW_MS + 5)}
    assert "startingOffsetsByTimestampStrategy=latest" in problem(lambda: read(**late).collect())
    assert values(read(**late, startingOffsetsByTimestampStrategy="latest")) == ["5", "6", "7", "8", "9"]


def test_a_pattern_names_topics_by_their_whole_name(read: Read, topics: Topics, topic: str):
    for name in (f"{topic}-1", f"{topic}-22"):
        topics.create(name)
        topics.write_values(name, [name[-1]])
    assert values(read(subscribePattern=f"{topic}-.")) == ["1"]
    assert values(read(subscribePattern=f"{topic}.*")) == ["1", "2"]
    assert values(read(subscribe=f"{topic}-1,{topic}-22")) == ["1", "2"]
    assert values(read(subscribePattern=f"{topic}-nothing")) == []


def test_a_partition_is_split_into_tasks(read: Read, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, map(str, range(1000)))
    whole = read(subscribe=topic)
    assert whole.rdd.getNumPartitions() == 1
    for options, tasks in (({"minPartitions": "4"}, 4), ({"maxRecordsPerPartition": "100"}, 10)):
        frame = read(subscribe=topic, **options)
        assert frame.rdd.getNumPartitions() == tasks
        assert values(frame) == [str(each) for each in range(1000)]


def test_small_partitions_share_a_task_unless_told_otherwise(read: Read, topics: Topics, topic: str):
    topics.create(topic, partitions=4)
    for partition in range(4):
        topics.write_values(topic, [f"{partition}-{each}" for each in range(10)], partition=partition)
    expected = [f"{partition}-{each}" for partition in range(4) for each in range(10)]
    for options, tasks in (
        ({}, 1),
        ({"penstock.task.offsets.min": "20"}, 2),
        ({"penstock.task.offsets.min": "0"}, 4),
    ):
        frame = read(subscribe=topic, **options)
        assert frame.rdd.getNumPartitions() == tasks
        assert values(frame) == expected


def test_a_schema_selects_columns(read: Read, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, ["a"])
    assert [tuple(row) for row in read("offset BIGINT, value BINARY", subscribe=topic).collect()] == [
        (0, b"a")
    ]
    assert "did you mean value?" in problem(lambda: read("valu BINARY", subscribe=topic).collect())
    assert "cast it after reading" in problem(lambda: read("value STRING", subscribe=topic).collect())


def test_filters_are_applied_where_spark_does_not_hand_them_over(
    spark: "SparkSession", read: Read, topics: Topics, topic: str
):
    topics.create(topic)
    topics.write_values(topic, ["a", "b", "c"])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")  # as it is by default
    try:
        assert values(read(subscribe=topic).where("offset = 1")) == ["b"]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_filter_of_one_query_does_not_reach_another_of_the_same_frame(
    read: Read, topics: Topics, topic: str
):
    topics.create(topic, partitions=2)
    for partition in range(2):
        topics.write_values(topic, [f"{partition}"] * 3, partition=partition)
    frame = read(subscribe=topic)
    first, second = frame.where("partition = 0"), frame.where("partition = 1")
    assert values(first) == ["0"] * 3
    assert values(frame) == ["0"] * 3 + ["1"] * 3
    assert values(first.union(second)) == ["0"] * 3 + ["1"] * 3


def test_filters_make_ranges_smaller(read: Read, topics: Topics, topic: str):
    topics.create(topic, partitions=3)
    for partition in range(3):
        topics.write(
            topic,
            [
                NewRecord(None, b"%d" % each, timestamp=NOW_MS + each, partition=partition)
                for each in range(20)
            ],
        )
    pushed = {"subscribe": topic, "penstock.filter.pushdown": "true"}
    frame = read(**pushed)
    some = frame.where("partition = 1 AND offset >= 15 AND offset < 18")
    assert some.rdd.getNumPartitions() == 1
    assert values(some) == ["15", "16", "17"]
    moment = datetime.fromtimestamp((NOW_MS + 18) / 1000, UTC)
    later = frame.where(frame.timestamp >= moment)
    assert values(later) == ["18", "19"] * 3
    # Had the range not been made smaller, what retention takes from its front would be missed.
    topics.cut(topic, 1, 15)
    start = f'{{"{topic}": {{"0": 0, "1": 0, "2": 0}}}}'
    assert values(read(**pushed, startingOffsets=start).where("partition = 1 AND offset >= 15"))[0] == "15"
    assert "data is lost" in problem(
        lambda: read(**pushed, startingOffsets=start).where("partition = 1").collect()
    )


def test_only_what_was_committed_is_read_unless_told_otherwise(read: Read, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, ["plain"])
    topics.transact(topic, ["yes", "yes"], commit=True)
    topics.transact(topic, ["no"] * 3, commit=False)
    topics.write_values(topic, ["after"])
    topics.transact(topic, ["open"], commit=None)
    topics.write_values(topic, ["behind"])
    assert values(read(subscribe=topic)) == ["plain", "yes", "yes", "after"]
    everything = {"subscribe": topic, "kafka.isolation.level": "read_uncommitted"}
    assert values(read(**everything)) == ["plain", "yes", "yes", "no", "no", "no", "after", "open", "behind"]
    # Also where a task begins in the middle of an aborted transaction.
    assert values(read(subscribe=topic, minPartitions="8")) == ["plain", "yes", "yes", "after"]


def test_the_brokers_time_is_told_from_the_producers(read: Read, topics: Topics, topic: str):
    topics.create(topic, message_timestamp_type="LogAppendTime")
    topics.write(topic, [NewRecord(None, b"a", timestamp=NOW_MS)])
    (row,) = read(subscribe=topic).collect()
    assert row.timestampType == 1
    assert row.timestamp.replace(tzinfo=UTC).timestamp() * 1000 > NOW_MS


def test_what_is_gone_is_named_or_left_out(read: Read, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, map(str, range(10)))
    topics.cut(topic, 0, 4)
    asked = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 1}}}}'}
    assert f"offsets 1 to 3 of topic {topic}, partition 0" in problem(lambda: read(**asked).collect())
    assert values(read(**asked, failOnDataLoss="false")) == ["4", "5", "6", "7", "8", "9"]
    assert values(read(subscribe=topic)) == ["4", "5", "6", "7", "8", "9"]


def test_an_empty_topic_has_no_rows(read: Read, topics: Topics, topic: str):
    topics.create(topic, partitions=2)
    assert read(subscribe=topic).count() == 0


def test_mistakes_are_answered_with_words_that_help(read: Read, topics: Topics, topic: str):
    topics.create(topic)
    said = problem(lambda: read(subscribe=topic[:-1]).collect())
    assert f"topic {topic[:-1]} does not exist" in said
    assert f"did you mean {topic}?" in said
    assert "did you mean startingOffsets?" in problem(lambda: read(subscribe=topic, startingOffset="latest"))
    assert "assign names" in problem(lambda: read(assign=f'{{"{topic}": [7]}}').collect())
    away = {"subscribe": topic, "kafka.bootstrap.servers": "127.0.0.1:1", "penstock.patience.ms": "300"}
    assert "127.0.0.1:1" in problem(lambda: read(**away).collect())


def test_a_damaged_batch_is_named(spark: "SparkSession", topics: Topics, tmp_path, topic: str):
    from peers.penstock import PenstockProcess

    with PenstockProcess(tmp_path) as broker:
        there = Topics(broker.bootstrap)
        there.create(topic)
        there.write_values(topic, ["x" * 100])
        there.write_values(topic, ["y" * 100])
        (log,) = tmp_path.glob(f"**/{topic}-0/*.log")
        with log.open("r+b") as file:
            file.seek(-20, 2)
            file.write(b"z")
        reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap)
        said = problem(lambda: reader.option("subscribe", topic).load().collect())
    assert "wrong CRC" in said
    assert f"{topic}-0" in said
