"""`.write` and `.writeStream` of `format("penstock")` on real Spark and a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.blocking import BlockingClient
from penstock.client.transactions import list_transactions
from penstock.records.murmur2 import partition_of_key
from penstock.testing import EmbeddedBroker
from tests.spark.failing import problem
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS = "array<struct<key: string, value: binary>>"


class Writing:
    """A broker, a session, and what tests do with them."""

    def __init__(self, spark: "SparkSession", broker: EmbeddedBroker, folder: Path) -> None:
        self.spark = spark
        self.servers = broker.bootstrap_servers
        self.topics = Topics(self.servers)
        self._folder = folder

    def write(self, frame: "DataFrame", topic: str | None = None, **options: str) -> None:
        writer = frame.write.format("penstock").mode("append")
        for name, value in self._options(topic, options).items():
            writer = writer.option(name, value)
        writer.save()

    def stream(self, frame: "DataFrame", topic: str | None = None, **options: str) -> None:
        """All there is to read, in batches, to its end; a checkpoint of its own for each target."""
        checkpoint = options.pop("checkpoint", f"to-{topic}")
        writer = frame.writeStream.format("penstock").trigger(availableNow=True)
        for name, value in self._options(topic, options).items():
            writer = writer.option(name, value)
        query = writer.option("checkpointLocation", str(self._folder / checkpoint)).start()
        try:
            assert query.awaitTermination(120), "the stream came to no end"
        finally:
            query.stop()

    def source(self, topic: str, *, per_batch: int) -> "DataFrame":
        reader = self.spark.readStream.format("penstock").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        return reader.option("maxOffsetsPerTrigger", str(per_batch)).option("includeHeaders", "true").load()

    def rows(
        self, topic: str, columns: str = "key, value", *, uncommitted: bool = False
    ) -> list[tuple[Any, ...]]:
        """What readers of committed records see, in the order of partitions and offsets."""
        reader = self.spark.read.format("penstock").option("kafka.bootstrap.servers", self.servers)
        if uncommitted:
            reader = reader.option("kafka.isolation.level", "read_uncommitted")
        frame = reader.option("subscribe", topic).option("includeHeaders", "true").load()
        return [
            tuple(row)
            for row in frame.orderBy("partition", "offset").selectExpr(*columns.split(", ")).collect()
        ]

    def open_transactions(self) -> list[str]:
        with BlockingClient(self.servers) as blocking:
            listed = blocking.run(list_transactions(blocking.client, states=["Ongoing"]))
        return [each.transactional_id for each in listed]

    def _options(self, topic: str | None, more: dict[str, str]) -> dict[str, str]:
        named = {} if topic is None else {"topic": topic}
        return {"kafka.bootstrap.servers": self.servers, **named, **more}


@pytest.fixture(scope="module")
def prepared() -> Iterator[EmbeddedBroker]:
    """A broker that has prepared transactions, and makes no topics by itself."""
    settings = {"transaction.two.phase.commit.enable": "true", "auto.create.topics.enable": "false"}
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def writing(spark: "SparkSession", prepared: EmbeddedBroker, tmp_path: Path) -> Writing:
    return Writing(spark, prepared, tmp_path)


def test_every_field_arrives_under_every_codec(writing: Writing, topic: str):
    writing.topics.create(topic, partitions=3)
    rows = [
        (b"k1", b"x" * 1000, [("a", b"1"), ("b", None)], 2),
        (None, b"v2", None, 0),
        (b"", None, [], 1),
        (b"k4", b"", [("", b"")], 2),
    ]
    frame = writing.spark.createDataFrame(
        rows, f"key binary, value binary, headers {HEADERS}, partition int"
    ).coalesce(1)
    for codec in CODECS:
        writing.write(frame, topic, **{"kafka.compression.type": codec})
    seen = writing.rows(topic, "key, value, headers, partition")
    expected = [
        (None, b"v2", None, 0),
        (b"", None, None, 1),
        (b"k1", b"x" * 1000, [("a", b"1"), ("b", None)], 2),
        (b"k4", b"", [("", b"")], 2),
    ]
    plain = [
        (key, value, None if not headers else [tuple(each) for each in headers], partition)
        for key, value, headers, partition in seen
    ]
    assert sorted(plain, key=repr) == sorted(expected * len(CODECS), key=repr)
    assert writing.open_transactions() == []


def test_strings_are_written_and_keys_choose_partitions_as_everywhere(writing: Writing, topic: str):
    writing.topics.create(topic, partitions=4)
    writing.write(
        writing.spark.range(500).selectExpr("concat('key', id) AS key", "string(id) AS value", "id"), topic
    )
    seen = writing.rows(topic, "key, value, partition")
    assert sorted(int(value) for _, value, _ in seen) == list(range(500))
    assert all(partition == partition_of_key(key, 4) for key, _, partition in seen)


def test_rows_go_where_their_topic_column_says_unless_the_option_does(writing: Writing, topic: str):
    first, second = f"{topic}-0", f"{topic}-1"
    writing.topics.create(first)
    writing.topics.create(second, partitions=2)
    frame = writing.spark.range(100).selectExpr("string(id) AS value", f"concat('{topic}-', id % 2) AS topic")
    writing.write(frame)
    assert sorted(int(value) % 2 for _, value in writing.rows(first)) == [0] * 50
    assert sorted(int(value) % 2 for _, value in writing.rows(second)) == [1] * 50
    writing.write(frame, first)
    assert len(writing.rows(first)) == 150


def test_a_stream_arrives_once_and_in_order(writing: Writing, topic: str):
    """In batches of some hundred rows, each in transactions of its own; nothing stays open."""
    source, target = f"{topic}-in", f"{topic}-out"
    writing.topics.create(source, partitions=2)
    writing.topics.create(target, partitions=2)
    for partition in range(2):
        writing.topics.write_values(source, [f"{partition}-{n}" for n in range(400)], partition=partition)
    frame = writing.source(source, per_batch=300).select("value", "partition")
    writing.stream(frame, target)
    expected = [(None, f"{partition}-{n}".encode()) for partition in range(2) for n in range(400)]
    assert writing.rows(target) == expected
    assert writing.open_transactions() == []
    # The same query goes on where it was.
    writing.topics.write_values(source, ["more"], partition=1)
    writing.stream(frame, target)
    assert writing.rows(target) == [*expected, (None, b"more")]


def test_a_fresh_checkpoint_starts_afresh(writing: Writing, topic: str):
    source, target = f"{topic}-in", f"{topic}-out"
    writing.topics.create(source)
    writing.topics.create(target)
    writing.topics.write_values(source, ["a", "b"])
    frame = writing.source(source, per_batch=10).select("value")
    writing.stream(frame, target, queryName="same", checkpoint="first")
    writing.stream(frame, target, queryName="same", checkpoint="second")
    assert [value for _, value in writing.rows(target)] == [b"a", b"b", b"a", b"b"]


def test_at_least_once_uses_no_transaction(writing: Writing, topic: str):
    source, target = f"{topic}-in", f"{topic}-out"
    writing.topics.create(source)
    writing.topics.create(target)
    plain = {"penstock.guarantee": "at-least-once"}
    writing.write(writing.spark.range(100).selectExpr("string(id) AS value"), source, **plain)
    writing.stream(
        writing.source(source, per_batch=60).select("value"), target, **plain, **{"kafka.acks": "1"}
    )
    assert sorted(int(value) for _, value in writing.rows(target)) == list(range(100))
    with BlockingClient(writing.servers) as blocking:
        listed = blocking.run(list_transactions(blocking.client))
    assert not [each for each in listed if target in each.transactional_id]


def test_a_write_that_fails_leaves_nothing_to_readers_and_nothing_open(writing: Writing, topic: str):
    writing.topics.create(topic)
    frame = writing.spark.range(0, 2000, 1, 2).selectExpr(
        "IF(id = 1999, raise_error('on purpose'), string(id)) AS value"
    )
    assert "on purpose" in problem(lambda: writing.write(frame, topic))
    assert writing.open_transactions() == []
    writing.write(writing.spark.range(1).selectExpr("'next' AS value"), topic)
    assert writing.rows(topic) == [(None, b"next")]


def test_a_batch_that_a_topic_finds_too_large_is_cut(writing: Writing, topic: str):
    writing.topics.create(topic, max_message_bytes="20000")
    writing.write(
        writing.spark.range(0, 1000, 1, 1).selectExpr("string(id) AS key", "repeat('x', 100) AS value"), topic
    )
    assert [int(key) for key, _ in writing.rows(topic)] == list(range(1000))


def test_a_record_that_is_too_large_is_refused_with_the_limit(writing: Writing, topic: str):
    writing.topics.create(topic, max_message_bytes="20000")
    frame = writing.spark.range(1).selectExpr("repeat('x', 30000) AS value")
    told = problem(lambda: writing.write(frame, topic, **{"kafka.max.request.size": "25000"}))
    assert "30" in told
    assert "may have 25000: the option kafka.max.request.size" in told
    assert "max.message.bytes" in problem(lambda: writing.write(frame, topic))


def test_a_topic_that_is_not_there_is_said_so(writing: Writing, topic: str):
    told = problem(lambda: writing.write(writing.spark.range(1).selectExpr("'x' AS value"), topic))
    assert f"there is no topic {topic} to write to" in told


def test_a_topic_is_made_where_the_broker_does_that(
    spark: "SparkSession", broker: EmbeddedBroker, topic: str, tmp_path: Path
):
    writing = Writing(spark, broker, tmp_path)
    writing.write(spark.range(3).selectExpr("string(id) AS value"), topic)
    assert sorted(value for _, value in writing.rows(topic)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("'x' AS valeu", {"topic": "t"}, "a column value (string or binary) is needed"),
        ("id AS value", {"topic": "t"}, "column value has to be string or binary, and is bigint"),
        ("'x' AS value", {}, "nothing says which topic to write to"),
        ("'x' AS value, id AS partition", {"topic": "t"}, "column partition has to be int"),
        ("'x' AS value, 'y' AS headers", {"topic": "t"}, "column headers has to be array<struct<"),
        ("'x' AS value", {"topik": "t"}, "did you mean topic?"),
        ("'x' AS value", {"topic": "t", "penstock.guarante": "x"}, "did you mean penstock.guarantee?"),
        ("'x' AS value", {"topic": "t", "kafka.acks": "1"}, "cannot hold what exactly once promises"),
        ("'x' AS value", {"topic": "t", "kafka.compression.type": "zip"}, "one of: none, gzip"),
    ],
)
def test_what_cannot_be_written_is_said_at_once(
    writing: Writing, columns: str, options: dict[str, str], told: str
):
    frame = writing.spark.range(1).selectExpr(*columns.split(", "))
    assert told in problem(lambda: writing.write(frame, **options))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("value, string(NULL) AS topic", "a row has no topic"),
        (
            "value, '{topic}' AS topic, 7 AS partition",
            "partition 7 of topic {topic}, which has partitions 0 to 1",
        ),
        (
            "value, '{topic}' AS topic, array(named_struct('key', string(NULL), 'value', binary('a'))) AS headers",
            "a header without a key",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_said_to_be_wrong(
    writing: Writing, topic: str, columns: str, told: str
):
    writing.topics.create(topic, partitions=2)
    frame = writing.spark.range(1).selectExpr("'x' AS value")
    frame.createOrReplaceTempView("rows")
    query = writing.spark.sql(f"SELECT {columns.format(topic=topic)} FROM rows")
    assert told.format(topic=topic) in problem(lambda: writing.write(query))


def test_a_broker_that_is_away_is_an_error_after_a_bounded_time(writing: Writing):
    frame = writing.spark.range(1).selectExpr("'x' AS value")
    away = {"kafka.bootstrap.servers": "127.0.0.1:1", "penstock.patience.ms": "500"}
    assert "cannot reach 127.0.0.1:1" in problem(lambda: writing.write(frame, "t", **away))
