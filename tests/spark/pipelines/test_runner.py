"""Flows on a real Spark session: what they read and write, how they fail and come back, and how one is reset."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.base.errors import UserError
from penstock.client.blocking import BlockingClient
from penstock.client.group_offsets import committed_offsets
from penstock.spark.pipelines.checkpoint import read_checkpoint
from penstock.spark.pipelines.paths import checkpoint_of, locked
from penstock.spark.pipelines.project import Project
from penstock.spark.pipelines.reset import plan_reset, reset
from penstock.spark.pipelines.runner import Runner, _RunningFlow
from penstock.spark.pipelines.transforms import ship_modules
from penstock.spark.pipelines.views import State
from penstock.spark.tables import read
from penstock.testing import EmbeddedBroker
from tests.spark.pipelines.projects import look_until, make_project, run_once, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

TWO_TABLES = """
[flows.counts]
from = "@T"
transform = "@M:counts"
to = { table = "counts", key = ["word"] }
output_mode = "update"
[flows.words]
from = "@T"
transform = "@M:words"
to = { table = "words" }
"""
FUNCTIONS = """
def words(records):
    shout = F.udf(lambda word: word.upper(), "string")  # runs in a worker, which has to have this module
    return records.select(shout(F.col("value").cast("string")).alias("word"), "offset")


def counts(records):
    return words(records).groupBy("word").agg(F.count("*").alias("count"))
"""


def two_tables(directory: Path, servers: str, topic: str) -> Project:
    return make_project(directory, servers, TWO_TABLES.replace("@T", topic), FUNCTIONS)


def counted(spark: "SparkSession", project: Project) -> dict[str, int]:
    rows = read(spark, project.state / "tables", "counts").collect()
    return {row["word"]: row["count"] for row in rows}


def word_count(spark: "SparkSession", project: Project) -> int:
    return read(spark, project.state / "tables", "words").count()


def test_flows_go_on_where_they_were_and_one_is_reset_without_touching_the_other(
    spark: "SparkSession", broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    project = two_tables(tmp_path, servers, topic)
    send(servers, topic, ["a", "b", "a"], partitions=2)

    first = run_once(project, spark)
    assert [(view.flow, view.state, view.rows, view.lag) for view in first] == [
        ("counts", State.DONE, 3, 0),
        ("words", State.DONE, 3, 0),
    ]
    send(servers, topic, ["a"])
    second = run_once(project, spark)
    assert [view.rows for view in second] == [1, 1], "what was read is not read again"
    assert counted(spark, project) == {"A": 3, "B": 1}

    (removed,) = reset(project, plan_reset(project, project.flows["counts"]))

    assert (removed.checkpoint, removed.table, removed.group) == (True, "counts", f"{project.name}.counts")
    assert not checkpoint_of(project, project.flows["counts"]).exists()
    with BlockingClient(servers) as blocking:
        gone = blocking.run(committed_offsets(blocking.client, f"{project.name}.counts"))
        kept = blocking.run(committed_offsets(blocking.client, f"{project.name}.words"))
    assert not gone
    assert kept
    words = read_checkpoint(checkpoint_of(project, project.flows["words"]))
    assert words is not None
    assert sum(words.positions.values()) == 4

    third = run_once(project, spark)
    assert [view.rows for view in third] == [4, 0], "one from the beginning, the other from where it was"
    assert counted(spark, project) == {"A": 3, "B": 1}
    assert word_count(spark, project) == 4


TWO_TOPICS = """
[flows.counts]
from = "@T"
transform = "@M:counts"
to = { topic = "@T-counts" }
output_mode = "update"
[flows.words]
from = "@T"
transform = "@M:words"
to = { topic = "@T-words" }
"""


def test_a_batch_that_spark_repeats_is_in_a_topic_once_in_append_and_in_update_mode(
    spark: "SparkSession",
    broker: EmbeddedBroker,
    topic: str,
    tmp_path: Path,
    read: "Callable[..., DataFrame]",
) -> None:
    """Spark repeats a batch that it does not know to be done, as after a crash between the sink's end and its own."""
    servers = broker.bootstrap_servers
    functions = """
def words(records):
    return records.select("key", "value")


def counts(records):
    counted = records.groupBy("value").agg(F.count("*").alias("count"))
    return counted.select(F.col("value").alias("key"), F.col("count").cast("string").cast("binary").alias("value"))
"""
    project = make_project(tmp_path, servers, TWO_TOPICS.replace("@T", topic), functions)
    for target in ("counts", "words"):
        send(servers, f"{topic}-{target}", [])
    send(servers, topic, ["a", "b", "a"])
    run_once(project, spark)
    send(servers, topic, ["b"])
    run_once(project, spark)

    def written(target: str) -> list[tuple[str, str]]:
        found = read(subscribe=f"{topic}-{target}").collect()
        return sorted((bytes(row["key"]).decode(), bytes(row["value"]).decode()) for row in found)

    before = [("a", "2"), ("b", "1"), ("b", "2")], [("a", "a"), ("a", "a"), ("b", "b"), ("b", "b")]
    assert (written("counts"), written("words")) == before
    for flow in project.flows.values():
        commits = checkpoint_of(project, flow) / "commits"
        last = max(
            (each for each in commits.iterdir() if each.name.isdigit()), key=lambda each: int(each.name)
        )
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    repeated = run_once(project, spark)

    assert [view.state for view in repeated] == [State.DONE] * 2
    assert [view.rows for view in repeated] == [1, 1], "both batches were read again"
    assert (written("counts"), written("words")) == before


def test_a_flow_that_fails_starts_again_with_longer_and_longer_waits_and_then_goes_on(
    spark: "SparkSession", broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    """A broken record fails each batch until the flow's function can read it; the other flow goes on."""
    servers = broker.bootstrap_servers
    mended = tmp_path / "mended"
    project = make_project(
        tmp_path / "project",
        servers,
        TWO_TABLES.replace("@T", topic),
        f"""
def words(records):
    return records.select(F.col("value").cast("string").alias("word"), "offset")


def counts(records):
    def length(word):
        import os
        if not os.path.exists({str(mended)!r}):
            raise ValueError("no word but " + word)
        return len(word)

    words = records.select(F.col("value").cast("string").alias("word"))
    return words.groupBy("word").agg(F.max(F.udf(length, "int")("word")).alias("count"))
""",
        settings="restart_delay_ms = 300",
    )
    send(servers, topic, ["seven"])
    ship_modules(spark, project)
    runner = Runner(project, spark)
    runner.start()
    try:
        failed = look_until(runner, lambda views: views[0].restarts == 2)
        assert failed[0].state is State.WAITING
        assert failed[0].problem == "ValueError: no word but seven"
        assert 0.3 < (failed[0].retry_in_s or 0) <= 0.6, "twice the first wait"

        mended.touch()
        healed = look_until(runner, lambda views: all(view.lag == 0 and view.rows for view in views))
        assert [(view.state, view.problem) for view in healed] == [(State.RUNNING, None)] * 2
        assert healed[1].restarts == 0
    finally:
        runner.stop()
    assert [view.state for view in runner.views()] == [State.STOPPED] * 2
    assert counted(spark, project) == {"seven": 5}


def test_a_flow_is_given_up_with_the_reason_and_the_others_finish(
    spark: "SparkSession", broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    flows = TWO_TABLES.replace('from = "@T"', 'from = "nowhere"', 1).replace("@T", topic)
    project = make_project(
        tmp_path, servers, flows, FUNCTIONS, settings="restarts_max = 1\nrestart_delay_ms = 50"
    )
    send(servers, topic, ["a"])

    lost, found = run_once(project, spark)

    assert (lost.state, lost.restarts) == (State.FAILED, 1)
    assert lost.problem is not None
    assert lost.problem == (
        f"topic nowhere does not exist on {servers}; `penstock topic create nowhere` creates it"
    )
    assert (found.state, found.rows) == (State.DONE, 1)


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        ("def words(records):\n    return records", "unknown function of flows_"),
        (
            "import not_there",
            "cannot be imported from",
        ),
        (
            "def words(records):\n    return records\n\ndef counts(records):\n    return {'a': records}",
            "returned dict and not a DataFrame; several outputs are several flows",
        ),
        (
            "def words(records):\n    return records\n\ndef counts(records):\n    return records.select('colour')",
            "colour",
        ),
    ],
    ids=["no such function", "no such module", "no DataFrame", "no such column"],
)
def test_a_function_that_cannot_be_used_is_said_before_anything_runs(
    spark: "SparkSession", broker: EmbeddedBroker, tmp_path: Path, functions: str, told: str
) -> None:
    project = make_project(tmp_path, broker.bootstrap_servers, TWO_TABLES.replace("@T", "orders"), functions)

    with pytest.raises(UserError) as caught:
        Runner(project, spark).start()

    assert str(caught.value).startswith("flow counts")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [each for each in spark.streams.active if each.name and each.name.startswith(project.name)]


def test_a_pipeline_that_runs_cannot_be_reset(broker: EmbeddedBroker, tmp_path: Path) -> None:
    project = two_tables(tmp_path, broker.bootstrap_servers, "orders")
    checkpoint = checkpoint_of(project, project.flows["counts"])
    checkpoint.mkdir(parents=True)

    with locked(project), pytest.raises(UserError, match=r"is running, as process \d+: stop that one first"):
        reset(project, plan_reset(project, project.flows["counts"]))

    assert checkpoint.exists()
    (removed,) = reset(project, plan_reset(project, project.flows["counts"]))
    assert removed.checkpoint, "and afterwards it can"


def test_a_reset_without_a_broker_says_what_stays(tmp_path: Path) -> None:
    project = two_tables(tmp_path, "localhost:1", "orders")
    checkpoint_of(project, project.flows["words"]).mkdir(parents=True)

    (removed,) = reset(project, plan_reset(project, project.flows["words"]))

    assert (removed.checkpoint, removed.group) == (True, None)
    assert "stays until the flow's next batch: cannot reach localhost:1" in removed.notes[0]


class Told:
    """A query that runs, as far as a runner looks at it: what Spark has told of it."""

    isActive = True

    def __init__(self) -> None:
        self.recentProgress: list[dict[str, Any]] = []

    def tell(self, batch: int, end: int, *, rows: int, **duration_ms: int) -> None:
        source = {"numInputRows": rows, "endOffset": {"words": {"0": end}}}
        self.recentProgress.append({"batchId": batch, "durationMs": duration_ms, "sources": [source]})


def test_a_batch_counts_though_spark_gave_its_number_to_a_trigger_with_nothing_to_do(tmp_path: Path) -> None:
    project = two_tables(tmp_path, "127.0.0.1:1", "words")
    flow = next(iter(project.flows.values()))
    running = _RunningFlow(project, flow, lambda rows: rows, None, once=False, clock=lambda: 0.0)  # type: ignore[arg-type]
    query = Told()
    running._query = query  # type: ignore[assignment]

    query.tell(12, 7, rows=0, latestOffset=60, triggerExecution=71)
    running.poll()
    waiting = running.view(0.0, 0)
    query.tell(12, 9, rows=2, addBatch=800, triggerExecution=900)
    running.poll()
    running.poll()
    read = running.view(0.0, 0)
    query.tell(13, 9, rows=0, latestOffset=4, triggerExecution=5)
    running.poll()
    idle = running.view(0.0, 0)

    assert (waiting.state, waiting.batch, waiting.rows) == (State.RUNNING, None, 0)
    assert (read.batch, read.rows, read.batch_ms) == (12, 2, 900)
    assert (idle.batch, idle.rows, idle.batch_ms) == (12, 2, 900), "nothing to do is no batch of 5 ms"
    assert list(running.positions.values()) == [9]
