"""Writes that Spark gives up while tasks of theirs live on, step by step: the sink as the driver and the tasks have it,
against real brokers, without Spark itself, where a test cannot choose when a task goes on. One of the brokers is an
Apache Kafka whose transactions have no epochs of their own, as those of older clusters.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructType

from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess
from penstock.client.blocking import BlockingClient
from penstock.client.errors import AnsweredError
from penstock.client.transaction_steps import has_own_epochs
from penstock.client.transactions import list_transactions
from penstock.spark.options import write_settings
from penstock.spark.sink.deciding import GivenUpError
from penstock.spark.sink.task import BATCH_RUN, Attempt, write_rows
from penstock.spark.sink.writers import BatchSink, StreamSink, TaskDone
from tests.chaos.reading import committed_values
from tests.spark.writing import Topics

pytestmark = pytest.mark.xdist_group("giving up")

KAFKA = [pytest.mark.foreign, pytest.mark.needs("kafka")]
SCHEMA = StructType().add("value", BinaryType())
OLD_TRANSACTIONS = {"transaction.version": 0}


@pytest.fixture(
    scope="module",
    params=[
        "penstock",
        pytest.param("kafka", marks=KAFKA),
        pytest.param("kafka with old transactions", marks=KAFKA),
    ],
)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "penstock":
        with PenstockProcess(settings={"transaction.two.phase.commit.enable": "true"}) as penstock:
            yield penstock.bootstrap
        return
    is_old = request.param != "kafka"
    with ApacheKafka(features=OLD_TRANSACTIONS if is_old else None) as kafka:
        with BlockingClient(kafka.bootstrap) as blocking:
            assert blocking.run(has_own_epochs(blocking.client)) is not is_old
        yield kafka.bootstrap


class Writing:
    """A topic, and writers to it."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic
        self._settings = write_settings({"kafka.bootstrap.servers": servers, "topic": topic})
        Topics(servers).create(topic)

    def batch(self) -> BatchSink:
        return BatchSink(SCHEMA, self._settings)

    def stream(self) -> StreamSink:
        return StreamSink(SCHEMA, self._settings)

    def task(
        self,
        sink: BatchSink,
        *values: bytes,
        attempt: int = 0,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> TaskDone:
        """A task of a batch write; `meanwhile` happens when it has its rows and has not sent any."""
        return self._task(
            Attempt(sink._write_id, BATCH_RUN, 0, 0, attempt, is_stream=False), values, meanwhile
        )

    def stream_task(self, query: str, run: str, *values: bytes) -> TaskDone:
        return self._task(Attempt(query, run, 0, 0, 0, is_stream=True), values)

    def seen(self) -> list[bytes]:
        """What a reader of committed records sees, whom nothing holds back."""
        with BlockingClient(self._servers) as blocking:
            listed = blocking.run(list_transactions(blocking.client, states=["Ongoing"]))
        assert listed == []
        return committed_values(self._servers, self._topic, partitions=1)[0]

    def _task(
        self, attempt: Attempt, values: tuple[bytes, ...], meanwhile: Callable[[], None] = lambda: None
    ) -> TaskDone:
        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"value": pa.array(values, pa.binary())})
            meanwhile()

        return TaskDone(write_rows(attempt, self._settings, rows()))


@pytest.fixture
def writing(servers: str, topic: str) -> Writing:
    return Writing(servers, topic)


def test_a_write_is_there_and_one_that_was_aborted_is_not(writing: Writing):
    first, second, third = writing.batch(), writing.batch(), writing.batch()
    first.commit([writing.task(first, b"a", b"b")])
    done = writing.task(second, b"not to be seen")
    second.abort([done, None])
    third.commit([writing.task(third, b"c")])
    assert writing.seen() == [b"a", b"b", b"c"]


def test_a_task_that_has_sent_nothing_yet_is_shut_out_by_the_abort(writing: Writing):
    sink = writing.batch()
    with pytest.raises(AnsweredError, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
        writing.task(sink, b"not to be seen", meanwhile=lambda: sink.abort([None]))
    assert writing.seen() == []


def test_a_task_that_starts_after_the_abort_writes_nothing(writing: Writing):
    """For any attempt number: the abort has not taken this transactional id over."""
    sink = writing.batch()
    sink.abort([None])
    with pytest.raises(GivenUpError, match="Spark has given up run"):
        writing.task(sink, b"not to be seen", attempt=99)
    assert writing.seen() == []


def test_an_attempt_that_lost_leaves_nothing_open_after_the_commit(writing: Writing):
    sink = writing.batch()
    winner = writing.task(sink, b"a")
    with pytest.raises(AnsweredError, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
        writing.task(sink, b"a", attempt=1, meanwhile=lambda: sink.commit([winner]))
    with pytest.raises(GivenUpError):
        writing.task(sink, b"a", attempt=2)
    assert writing.seen() == [b"a"]


def test_a_task_of_an_older_run_of_a_stream_stays_given_up_and_the_next_run_goes_on(
    writing: Writing, topic: str
):
    for run in ("first", "second"):
        writing.stream().abort([writing.stream_task(topic, run, b"not to be seen"), None], 0)
    for run in ("first", "second"):
        with pytest.raises(GivenUpError):
            writing.stream_task(topic, run, b"not to be seen")
    writing.stream().commit([writing.stream_task(topic, "third", b"a")], 0)
    for run in ("first", "second"):
        assert writing.stream_task(topic, run, b"a").written.was_decided
    assert writing.seen() == [b"a"]


def test_a_commit_that_comes_after_the_abort_decides_nothing(writing: Writing, topic: str):
    done = writing.stream_task(topic, "first", b"not to be seen")
    writing.stream().abort([done], 0)
    with pytest.raises(GivenUpError, match="Spark has asked to abort it"):
        writing.stream().commit([done], 0)
    assert writing.seen() == []
