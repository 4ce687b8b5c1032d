"""Every row exactly once, whatever is killed: `crashes` has the table and says what is killed how."""

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess
from tests.spark.failing import await_file
from tests.spark.sink.crashes import Scenario, Story, chosen, live, start, tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

ON_KAFKA = (
    "the driver dies after the decision",
    "the driver dies between the ends",
    "a worker dies in a task",
)
_WAIT_S = 60


@pytest.mark.parametrize("scenario", chosen(), ids=str)
def test_every_row_is_there_once(
    spark: "SparkSession", penstock: PenstockProcess, tmp_path: Path, scenario: Scenario
):
    tell(spark, Story(penstock.bootstrap, tmp_path), scenario)


@pytest.mark.foreign
@pytest.mark.parametrize("scenario", [each for each in chosen() if each.name in ON_KAFKA], ids=str)
def test_every_row_is_there_once_on_apache_kafka(
    spark: "SparkSession", kafka: ApacheKafka, tmp_path: Path, scenario: Scenario
):
    tell(spark, Story(kafka.bootstrap, tmp_path), scenario)


def test_a_broker_that_is_killed_between_the_decision_and_the_ends_loses_nothing(
    spark: "SparkSession", penstock: PenstockProcess, tmp_path: Path
):
    """The stream waits for the broker, and goes on without a restart of its own."""
    story = Story(penstock.bootstrap, tmp_path)
    query = start(spark, story.life(tasks=3, crash={"crash.at": "hold after the decision"}))
    try:
        await_file(story.happened)
        penstock.kill()
        penstock.start()
        Path(f"{story.happened}.go").touch()
        assert query.awaitTermination(_WAIT_S)
    finally:
        query.stop()
    story.check()


@pytest.mark.foreign
def test_a_transaction_that_times_out_in_mid_batch_is_reported_and_the_batch_written_again(
    spark: "SparkSession", kafka: ApacheKafka, tmp_path: Path
):
    story = Story(kafka.bootstrap, tmp_path)
    short = {"kafka.transaction.timeout.ms": "1500"}
    crash = {"crash.at": "hold until the timeout"}
    problem = live(spark, story.life(tasks=2, crash=crash, **short))
    assert problem is not None
    assert "transactions are not open any more" in problem
    assert "kafka.transaction.timeout.ms" in problem
    assert live(spark, story.life(tasks=3, **short)) is None
    story.check()


@pytest.mark.foreign
def test_rows_lost_to_a_timeout_after_the_decision_fail_the_stream_until_an_option_skips_the_batch(
    spark: "SparkSession", kafka: ApacheKafka, tmp_path: Path
):
    story = Story(kafka.bootstrap, tmp_path)
    crash = {"crash.at": "after the decision", "crash.abort": "no"}
    short = {"kafka.transaction.timeout.ms": "1000"}
    assert live(spark, story.life(tasks=2, crash=crash, **short)) is not None
    _await_timeouts(story)
    for _ in range(2):
        problem = live(spark, story.life(tasks=2))
        assert problem is not None
        assert "rows of batch 1 of query" in problem
        assert "are lost" in problem
        assert 'option("penstock.skip.lost.batch", "1")' in problem
    assert live(spark, story.life(tasks=2, **{"penstock.skip.lost.batch": "1"})) is None
    with pytest.raises(AssertionError, match="120 rows are missing"):
        story.check()


def _await_timeouts(story: Story) -> None:
    from penstock.client.blocking import BlockingClient
    from penstock.client.transactions import list_transactions

    deadline_s = time.monotonic() + _WAIT_S
    with BlockingClient(story.servers) as blocking:
        while blocking.run(list_transactions(blocking.client, states=["Ongoing"])):
            assert time.monotonic() < deadline_s, "no timeout strikes"
            threading.Event().wait(0.1)
