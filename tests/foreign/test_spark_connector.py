"""Spark's own Kafka connector on the broker, unchanged; and our source beside it in one session, row for row.

Where the two differ on purpose, a test says so: ours reads committed records by default, and says at once what the
connector passes over or waits for.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peers.brokers import Broker
from penstock.client.producer import NewRecord
from penstock.records.compression import Codec
from tests.foreign.sample import CODECS, SAMPLES
from tests.spark.conftest import links_looked_up, spark
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["links_looked_up", "spark"]

pytestmark = [pytest.mark.foreign, pytest.mark.needs("spark-kafka"), pytest.mark.xdist_group("spark")]

OURS, THEIRS = "penstock", "kafka"
# Theirs asks three times, a second apart, also where it was told nonsense. Ours takes the option and does not need it.
QUICKLY = {"includeHeaders": "true", "fetchOffset.numRetries": "1"}
NOW_MS = int(time.time() * 1000) - 3_600_000  # lately: what is older than a week would be deleted
TIMEOUT_S = 90


class Both:
    """The same reads through either source."""

    def __init__(self, session: "SparkSession", bootstrap: str) -> None:
        self._spark = session
        self._bootstrap = bootstrap

    def read(self, source: str, **options: Any) -> "DataFrame":
        reader = self._spark.read.format(source).option("kafka.bootstrap.servers", self._bootstrap)
        for name, value in {**QUICKLY, **options}.items():
            reader = reader.option(name, value)
        return reader.load()

    def rows(self, source: str, **options: Any) -> list[tuple[Any, ...]]:
        frame = self.read(source, **options).orderBy("topic", "partition", "offset")
        return [tuple(row) for row in frame.collect()]

    def refuses(self, source: str, **options: Any) -> bool:
        try:
            self.rows(source, **options)
        except Exception:
            return True
        return False

    def agree(self, **options: Any) -> list[tuple[Any, ...]]:
        """The rows that both sources read."""
        ours, theirs = self.rows(OURS, **options), self.rows(THEIRS, **options)
        assert ours == theirs
        return ours

    def write(self, frame: "DataFrame", topic: str, **options: str) -> None:
        writer = frame.write.format(THEIRS).option("kafka.bootstrap.servers", self._bootstrap)
        writer.option("topic", topic).options(**options).save()

    def stream(self, source: str, topic: str, **options: str) -> "DataFrame":
        reader = self._spark.readStream.format(source).option("kafka.bootstrap.servers", self._bootstrap)
        return reader.option("subscribe", topic).options(**{"startingOffsets": "earliest", **options}).load()

    def to_topic(self, frame: "DataFrame", topic: str, checkpoint: Path, **trigger: Any) -> "StreamingQuery":
        writer = frame.writeStream.format(THEIRS).option("kafka.bootstrap.servers", self._bootstrap)
        writer = writer.option("topic", topic).option("checkpointLocation", str(checkpoint))
        return writer.outputMode("update").trigger(**trigger).start()


@pytest.fixture
def both(spark: "SparkSession", broker: Broker) -> Both:
    return Both(spark, broker.bootstrap)


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(broker.bootstrap)


@pytest.fixture
def running() -> "Iterator[list[StreamingQuery]]":
    """Queries that go on by themselves; whatever happens, they end with the test."""
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


def numbered(count: int, *, partitions: int = 1) -> list[NewRecord]:
    return [
        NewRecord(None, b"%d" % each, timestamp=NOW_MS + each, partition=each % partitions)
        for each in range(count)
    ]


def values(rows: list[tuple[Any, ...]]) -> list[str]:
    return [bytes(row[1]).decode() for row in rows]


def problem(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return str(caught.value)


def wait_until(holds: Callable[[], bool], query: "StreamingQuery") -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline_s, query.status
        time.sleep(0.05)  # the query is another process's: nothing here could be told


# The connector by itself.


@pytest.mark.parametrize("codec", CODECS)
def test_the_connector_writes_and_reads_batches_of_every_codec(
    both: Both, spark: "SparkSession", topic: str, codec: str
):
    headers = [("trace", b"1"), ("trace", None)]
    frame = spark.createDataFrame(
        [(b"k", b"x" * 500, headers), (None, b"", None), (b"", None, [])],
        "key binary, value binary, headers array<struct<key string, value binary>>",
    ).coalesce(1)
    both.write(frame, topic, includeHeaders="true", **{"kafka.compression.type": codec})
    rows = both.rows(THEIRS, subscribe=topic)
    assert [row[:2] for row in rows] == [(b"k", b"x" * 500), (None, b""), (b"", None)]
    assert [None if row[7] is None else [tuple(each) for each in row[7]] for row in rows] == [
        headers,
        None,
        None,
    ]


def test_the_connector_streams_from_topic_to_topic_and_goes_on_where_it_was(
    both: Both, topics: Topics, topic: str, tmp_path: Path
):
    copy = f"{topic}-copy"
    topics.create(topic, 2)
    topics.create(copy, 2)
    sizes = []
    for _ in range(2):
        topics.write(topic, numbered(100, partitions=2))
        frame = both.stream(THEIRS, topic, maxOffsetsPerTrigger="40").select("key", "value")
        query = both.to_topic(frame, copy, tmp_path, availableNow=True)
        assert query.awaitTermination(TIMEOUT_S)
        sizes += [progress["numInputRows"] for progress in query.recentProgress]
    assert sizes == [40, 40, 20, 40, 40, 20]
    found = values(both.rows(THEIRS, subscribe=copy))
    assert sorted(found) == sorted([str(each) for each in range(100)] * 2)


def test_the_connector_starts_a_stream_at_a_time(both: Both, topics: Topics, topic: str, tmp_path: Path):
    copy = f"{topic}-copy"
    topics.create(topic, 2)
    topics.create(copy)
    topics.write(topic, numbered(20, partitions=2))
    frame = both.stream(THEIRS, topic, startingTimestamp=str(NOW_MS + 15)).select("value")
    assert both.to_topic(frame, copy, tmp_path, availableNow=True).awaitTermination(TIMEOUT_S)
    assert sorted(values(both.rows(THEIRS, subscribe=copy))) == ["15", "16", "17", "18", "19"]


def test_the_connector_runs_in_real_time_mode(
    both: Both, topics: Topics, topic: str, tmp_path: Path, running: "list[StreamingQuery]"
):
    copy = f"{topic}-copy"
    topics.create(topic)
    topics.create(copy)
    frame = both.stream(THEIRS, topic).select("key", "value")
    query = both.to_topic(frame, copy, tmp_path, realTime="5 seconds")
    running.append(query)
    for number in range(2):
        topics.write_values(topic, [str(number)])
        # In this mode records come out while their batch is under way: it has not been reported when they are there.
        wait_until(lambda expected=number: topics.end(copy) > expected, query)
    query.stop()
    assert values(both.rows(THEIRS, subscribe=copy)) == ["0", "1"]


# Both, side by side.


@pytest.mark.parametrize("headers", ["false", "true"])
def test_both_have_the_same_schema(both: Both, topics: Topics, topic: str, headers: str):
    topics.create(topic)
    ours, theirs = (
        both.read(source, subscribe=topic, includeHeaders=headers).schema for source in (OURS, THEIRS)
    )
    assert ours == theirs


def test_both_read_the_same_of_everything_that_a_record_may_have_or_lack(
    both: Both, topics: Topics, topic: str
):
    topics.create(topic, 2)
    for number, codec in enumerate(Codec):
        records = [
            NewRecord(each.key, each.value, each.headers, NOW_MS + number, partition=number % 2)
            for each in SAMPLES
        ]
        records.append(NewRecord(b"null in a header", None, (("a", None),), NOW_MS, partition=0))
        records.append(NewRecord(b"no timestamp", b"", timestamp=-1, partition=1))
        topics.write(topic, records, codec=codec)
    rows = both.agree(subscribe=topic)
    assert len(rows) == len(Codec) * (len(SAMPLES) + 2)
    assert any(row[7] is None for row in rows)
    assert any(row[5].year < 1971 for row in rows)


def test_both_show_the_brokers_time_where_the_topic_says_so(both: Both, topics: Topics, topic: str):
    topics.create(topic, message_timestamp_type="LogAppendTime")
    topics.write(topic, numbered(5))
    rows = both.agree(subscribe=topic)
    assert {row[6] for row in rows} == {1}
    assert all(row[5].timestamp() * 1000 > NOW_MS + 1_800_000 for row in rows)


def test_both_leave_out_what_was_aborted_and_what_is_open_ours_by_default(
    both: Both, topics: Topics, topic: str
):
    topics.create(topic)
    topics.transact(topic, ["a1", "a2"], commit=False)
    topics.transact(topic, ["b1", "b2"], commit=True)
    topics.transact(topic, ["c1"], commit=False)
    topics.transact(topic, ["d1"], commit=True)
    topics.transact(topic, ["e1"], commit=None)
    committed, everything = (
        {"kafka.isolation.level": level} for level in ("read_committed", "read_uncommitted")
    )
    rows = both.agree(subscribe=topic, **committed)
    assert values(rows) == ["b1", "b2", "d1"]
    assert both.rows(OURS, subscribe=topic) == rows
    rows = both.agree(subscribe=topic, **everything)
    assert values(rows) == ["a1", "a2", "b1", "b2", "c1", "d1", "e1"]
    assert both.rows(THEIRS, subscribe=topic) == rows


def test_both_read_over_the_gaps_of_a_compacted_topic(both: Both, topics: Topics, topic: str):
    topics.create(
        topic,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    deadline_s = time.monotonic() + TIMEOUT_S
    rows: list[tuple[Any, ...]] = []
    written = 0
    # A segment is closed by the next record, and cleaned some time later.
    while not rows or len(rows) == written:
        assert time.monotonic() < deadline_s, "nothing was compacted"
        topics.write(topic, [NewRecord(b"%d" % (each % 7), b"%d" % each) for each in range(20)])
        written += 20
        rows = both.rows(OURS, subscribe=topic)
    topics.alter(topic, max_compaction_lag_ms="9000000000")
    rows = both.agree(subscribe=topic)
    assert 0 < len(rows) < written
    assert both.agree(subscribe=topic, minPartitions="5") == rows


def chosen(topic: str) -> dict[str, tuple[dict[str, str], int]]:
    """Options by what they say, and how many of the rows of a topic with 2 x 10 records they leave."""
    both = f'{{"{topic}": {{"0": %s, "1": %s}}}}'
    return {
        "offsets to begin at": ({"startingOffsets": both % (7, -2)}, 13),
        "offsets to end at": ({"endingOffsets": both % (2, -1)}, 12),
        "a time to begin at": ({"startingTimestamp": str(NOW_MS + 15)}, 5),
        "a time to end at": ({"endingTimestamp": str(NOW_MS + 15)}, 15),
        "a time for each partition": ({"startingOffsetsByTimestamp": both % (NOW_MS + 3, NOW_MS + 19)}, 9),
        "a time that is still to come": (
            {"startingTimestamp": str(2 * NOW_MS), "startingOffsetsByTimestampStrategy": "latest"},
            0,
        ),
        "some partitions": ({"assign": f'{{"{topic}": [1]}}'}, 10),
        "a pattern": ({"subscribePattern": f"{topic}.*"}, 20),
        "a pattern that nothing matches": ({"subscribePattern": f"no-{topic}.*"}, 0),
        "smaller tasks": ({"minPartitions": "7"}, 20),
        "tasks of a size": ({"maxRecordsPerPartition": "3"}, 20),
        "a group": ({"kafka.group.id": f"group-of-{topic}"}, 20),
    }


@pytest.mark.parametrize("said", chosen(""))
def test_both_understand_the_same_options(both: Both, topics: Topics, topic: str, said: str):
    topics.create(topic, 2)
    topics.write(topic, numbered(20, partitions=2))
    options, count = chosen(topic)[said]
    if not {"assign", "subscribePattern"} & set(options):
        options = {"subscribe": topic, **options}
    assert len(both.agree(**options)) == count


def test_both_refuse_the_same(both: Both, topics: Topics, topic: str):
    topics.create(topic)
    topics.write(topic, numbered(5))
    at = f'{{"{topic}": {{"0": %d}}}}'
    refused: list[dict[str, str]] = [
        {"startingOffsets": "latest"},
        {"startingOffsets": at % -1},
        {"endingOffsets": "earliest"},
        {"startingOffsets": at % 3, "endingOffsets": at % 2},
        {"startingOffsets": at % 9},
        {"startingOffsets": f'{{"{topic}": {{"0": 0, "7": 0}}}}'},
        {"startingTimestamp": str(2 * NOW_MS)},
        {"startingTimestamp": "soon"},
        {"assign": f'{{"{topic}": [0]}}'},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.enable.auto.commit": "true"},
        {"kafka.key.deserializer": "any.Class"},
    ]
    taken = [
        (source, options)
        for options in refused
        for source in (OURS, THEIRS)
        if not both.refuses(source, subscribe=topic, **options)
    ]
    assert taken == []


def test_ours_refuses_a_partition_that_is_not_there_which_theirs_leaves_out(
    both: Both, topics: Topics, topic: str
):
    topics.create(topic)
    topics.write(topic, numbered(5))
    options = {"assign": f'{{"{topic}": [0, 9]}}'}
    assert len(both.rows(THEIRS, **options)) == 5
    assert f"{topic}-9, which does not exist" in problem(lambda: both.rows(OURS, **options))


@pytest.mark.parametrize("limit", ["40", "1000"])
def test_a_stream_of_the_connector_goes_on_with_one_word_changed(
    both: Both, topics: Topics, topic: str, tmp_path: Path, limit: str
):
    topics.create(topic, 2)
    found: list[str] = []
    checkpoint = str(tmp_path)

    def take(frame: "DataFrame", _number: int) -> None:
        found.extend(bytes(row.value).decode() for row in frame.collect())

    for begin, source in ((0, THEIRS), (100, OURS)):
        topics.write(
            topic, [NewRecord(None, b"%d" % each, partition=each % 2) for each in range(begin, begin + 100)]
        )
        frame = both.stream(source, topic, maxOffsetsPerTrigger=limit)
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_S)
    assert sorted(map(int, found)) == list(range(200))
