"""`spark.readStream.format("penstock")`: micro-batches, restarts, topics that change."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.group_offsets import committed_offsets
from penstock.client.groups import list_groups
from penstock.testing import EmbeddedBroker
from tests.spark.failing import problem
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.xdist_group("spark")


class Stream:
    """A query from a topic into a list, which can be run again and again from its checkpoint."""

    def __init__(self, spark: "SparkSession", servers: str, directory: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._directory = directory
        self.batches: list[list[str]] = []

    def run(self, **options: Any) -> "StreamingQuery":
        """All that is there, then it ends; what was read is in `batches`, one list per micro-batch."""
        query = self.start(once=True, **options)
        query.awaitTermination()
        return query

    def start(self, *, once: bool = False, source: str = "penstock", **options: Any) -> "StreamingQuery":
        self.batches = []
        reader = self._spark.readStream.format(source).option("kafka.bootstrap.servers", self._servers)
        for name, value in {"startingOffsets": "earliest", **options}.items():
            reader = reader.option(name, value)
        writer = reader.load().writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._directory / "checkpoint"))
        return (
            writer.trigger(availableNow=True) if once else writer.trigger(processingTime="100 milliseconds")
        ).start()

    def _take(self, frame: "DataFrame", _number: int) -> None:
        rows = frame.orderBy("topic", "partition", "offset").collect()
        self.batches.append([bytes(row.value).decode() for row in rows])

    @property
    def values(self) -> list[str]:
        return [value for batch in self.batches for value in batch]


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def stream(spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path) -> Stream:
    return Stream(spark, broker.bootstrap_servers, tmp_path)


@pytest.fixture
def blocking(broker: EmbeddedBroker) -> Iterator[BlockingClient]:
    with BlockingClient(broker.bootstrap_servers) as client:
        yield client


def test_a_stream_goes_on_where_its_checkpoint_ends(stream: Stream, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, ["a", "b"])
    stream.run(subscribe=topic)
    assert stream.values == ["a", "b"]
    stream.run(subscribe=topic)
    assert stream.values == []
    topics.write_values(topic, ["c"])
    stream.run(subscribe=topic)
    assert stream.values == ["c"]


def test_a_limit_cuts_what_is_there_into_batches(stream: Stream, topics: Topics, topic: str):
    topics.create(topic, partitions=2)
    topics.write_values(topic, ["x"] * 60, partition=0)
    topics.write_values(topic, ["y"] * 20, partition=1)
    stream.run(subscribe=topic, maxOffsetsPerTrigger="20")
    assert [len(batch) for batch in stream.batches] == [20] * 4
    assert all(batch.count("y") == 5 for batch in stream.batches)


def test_what_comes_later_is_not_for_a_run_that_ends(stream: Stream, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, ["a"] * 4)
    seen: list[int] = []

    def write_more(frame: "DataFrame", _number: int) -> None:
        seen.append(frame.count())
        topics.write_values(topic, ["late"] * 10)

    stream._take = write_more  # type: ignore[method-assign]
    stream.run(subscribe=topic, maxOffsetsPerTrigger="2")
    assert seen == [2, 2]


def test_progress_is_a_groups_committed_offsets(
    stream: Stream, topics: Topics, topic: str, blocking: BlockingClient
):
    topics.create(topic)
    topics.write_values(topic, ["a", "b", "c"])
    group = f"progress-of-{topic}"
    stream.run(subscribe=topic, **{"penstock.commit.group": group})
    committed = blocking.run(committed_offsets(blocking.client, group))
    assert committed[TopicPartition(topic, 0)].offset == 3


def test_the_default_group_stays_with_the_checkpoint(
    stream: Stream, topics: Topics, topic: str, blocking: BlockingClient
):
    def groups() -> list[str]:
        listed = blocking.run(list_groups(blocking.client))
        return [each.group_id for each in listed if each.group_id.startswith(topic)]

    topics.create(topic)
    topics.write_values(topic, ["a"])
    stream.run(subscribe=topic, groupIdPrefix=topic)
    (name,) = groups()
    topics.write_values(topic, ["b"])
    stream.run(subscribe=topic, groupIdPrefix=topic)
    assert groups() == [name]
    assert blocking.run(committed_offsets(blocking.client, name))[TopicPartition(topic, 0)].offset == 2


def test_no_group_is_made_where_none_is_wanted(
    stream: Stream, topics: Topics, topic: str, blocking: BlockingClient
):
    topics.create(topic)
    topics.write_values(topic, ["a"])
    stream.run(subscribe=topic, groupIdPrefix=topic, **{"penstock.commit.group": "false"})
    listed = blocking.run(list_groups(blocking.client))
    assert not [each for each in listed if each.group_id.startswith(topic)]


def test_partitions_and_topics_that_come_later_are_read_from_their_beginning(
    stream: Stream, topics: Topics, topic: str
):
    topics.create(f"{topic}-1")
    topics.write_values(f"{topic}-1", ["a"])
    stream.run(subscribePattern=f"{topic}.*")
    topics.grow(f"{topic}-1", 2)
    topics.write_values(f"{topic}-1", ["b"], partition=1)
    topics.create(f"{topic}-2")
    topics.write_values(f"{topic}-2", ["c"])
    stream.run(subscribePattern=f"{topic}.*", startingOffsets="latest")
    assert stream.values == ["b", "c"]


def test_a_running_stream_sees_what_comes(stream: Stream, topics: Topics, topic: str):
    topics.create(topic)
    query = stream.start(subscribe=topic)
    try:
        for expected in (["a"], ["a", "b"]):
            topics.write_values(topic, expected[-1:])
            query.processAllAvailable()
            assert stream.values == expected
        topics.grow(topic, 2)
        topics.write_values(topic, ["c"], partition=1)
        query.processAllAvailable()
        assert stream.values == ["a", "b", "c"]
    finally:
        query.stop()


def test_lost_offsets_stop_a_stream_or_are_left_out(stream: Stream, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, map(str, range(4)))
    stream.run(subscribe=topic)
    topics.write_values(topic, map(str, range(4, 10)))
    topics.cut(topic, 0, 8)
    said = problem(lambda: stream.run(subscribe=topic))
    assert f"offsets 4 to 7 of topic {topic}, partition 0" in said
    stream.run(subscribe=topic, failOnDataLoss="false")
    assert stream.values == ["8", "9"]


def test_a_topic_made_anew_is_not_taken_for_the_old_one(stream: Stream, topics: Topics, topic: str):
    topics.create(topic)
    topics.write_values(topic, ["old"] * 3)
    stream.run(subscribe=topic)
    topics.delete(topic)
    topics.create(topic)
    topics.write_values(topic, ["new"] * 5)
    assert "deleted and created again" in problem(lambda: stream.run(subscribe=topic))
    stream.run(subscribe=topic, failOnDataLoss="false")
    assert stream.values == ["new"] * 5


def test_a_checkpoint_of_another_topic_is_refused(stream: Stream, topics: Topics, topic: str):
    for name in (topic, f"{topic}-other"):
        topics.create(name)
        topics.write_values(name, ["a"])
    stream.run(subscribe=topic)
    said = problem(lambda: stream.run(subscribe=f"{topic}-other"))
    assert f"the checkpoint is of {topic}" in said
    assert "a checkpoint of its own" in said


def test_a_stream_waits_for_the_least_it_wants(stream: Stream, topics: Topics, topic: str):
    topics.create(topic)
    query = stream.start(subscribe=topic, minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    try:
        topics.write_values(topic, ["a", "b"])
        topics.write_values(topic, ["c"])
        query.processAllAvailable()
        assert stream.batches == [["a", "b", "c"]]
    finally:
        query.stop()
