"""Streams whose driver, tasks and broker are killed at chosen points: the scenarios, and how one is run.

The suite runs them in one Spark session, where a driver's death is the death of the process that commits, and Spark's
request to abort is not heard. `python -m tests.spark.sink.crashes [kafka] [WORDS OF A NAME]` kills whole drivers
instead: each life has a process and a Spark of its own, about 20 s.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.blocking import BlockingClient
from penstock.client.transactions import list_transactions
from tests.chaos.reading import committed_values
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 360
PER_BATCH = 120
TARGET_PARTITIONS = 3
_LIFE_S = 300
_ALL = "PENSTOCK_CRASHES"


class Scenario(NamedTuple):
    """What goes wrong in the second batch of a stream's first life; its second life has another number of tasks."""

    name: str
    at: str
    hears_abort: bool = True
    tasks: tuple[int, int] = (3, 2)
    often: bool = (
        False  # part of every run of the suite, which has to be short; PENSTOCK_CRASHES=all runs the others
    )

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


SCENARIOS = (
    Scenario("the driver dies before the decision", "before the decision", hears_abort=False),
    Scenario("the driver dies after the decision", "after the decision", hears_abort=False, often=True),
    Scenario(
        "the driver dies between the ends", "between the ends", hears_abort=False, tasks=(3, 4), often=True
    ),
    Scenario("the driver dies before Spark's own commit", "before Spark's own commit", hears_abort=False),
    Scenario("the commit fails before the decision", "before the decision"),
    Scenario("the commit fails after the decision", "after the decision", often=True),
    Scenario("the commit fails between the ends", "between the ends", tasks=(2, 3)),
    Scenario("a worker dies in a task", "in a task", tasks=(2, 3)),
    Scenario("a worker dies after a task", "after a task", tasks=(3, 1), often=True),
)


def chosen() -> list[Scenario]:
    """Those for this run of the suite."""
    return [each for each in SCENARIOS if each.often or os.environ.get(_ALL) == "all"]


class Story:
    """One stream from a topic to a topic, through its lives."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers = servers
        self.folder = folder
        name = uuid.uuid4().hex[:8]
        self.source, self.target = f"in-{name}", f"out-{name}"
        topics = Topics(servers)
        topics.create(self.source, partitions=2)
        topics.create(self.target, partitions=TARGET_PARTITIONS)
        for partition in range(2):
            topics.write_values(self.source, map(str, range(partition, ROWS, 2)), partition=partition)

    @property
    def happened(self) -> Path:
        return self.folder / f"{self.target}.happened"

    def life(self, *, tasks: int, crash: dict[str, str] | None = None, **options: str) -> dict[str, Any]:
        """What `live` needs to know, as plain data."""
        return {
            "servers": self.servers,
            "source": self.source,
            "checkpoint": str(self.folder / f"{self.target}.checkpoint"),
            "tasks": tasks,
            "options": {
                "kafka.bootstrap.servers": self.servers,
                "topic": self.target,
                "crash.once": str(self.happened),
                "crash.batch": "1",
                **(crash or {}),
                **options,
            },
        }

    def check(self) -> None:
        """Every row exactly once for a reader of committed records, and nothing that holds readers back."""
        by_partition = committed_values(self.servers, self.target, partitions=TARGET_PARTITIONS)
        seen = Counter(int(value) for values in by_partition.values() for value in values)
        missing = [row for row in range(ROWS) if row not in seen]
        repeated = [row for row, count in seen.items() if count > 1]
        assert not missing, f"{len(missing)} rows are missing: {missing[:5]}"
        assert not repeated, f"{len(repeated)} rows are there again: {repeated[:5]}"
        with BlockingClient(self.servers) as blocking:
            left = blocking.run(list_transactions(blocking.client, states=["Ongoing"]))
        assert not left, f"transactions are open: {left}"


def start(spark: "SparkSession", life: dict[str, Any]) -> Any:
    """The stream's query, with `format("crashing")`."""
    from pyspark import cloudpickle

    from tests.spark.sink import crashing

    cloudpickle.register_pickle_by_value(crashing)  # workers cannot import tests
    spark.dataSource.register(crashing.CrashingSource)
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", life["servers"])
    reader = reader.option("subscribe", life["source"]).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", str(PER_BATCH)).load()
    frame = frame.selectExpr("key", f"{life.get('value', 'value')} AS value")
    writer = frame.repartition(life["tasks"]).writeStream.format("crashing").trigger(availableNow=True)
    for name, value in life["options"].items():
        writer = writer.option(name, value)
    return writer.option("checkpointLocation", life["checkpoint"]).start()


def live(spark: "SparkSession", life: dict[str, Any]) -> str | None:
    """Run to the end of what there is to read; what went wrong, if something did."""
    query = start(spark, life)
    try:
        assert query.awaitTermination(_LIFE_S), "the stream came to no end"
    except Exception as problem:
        return str(problem)
    finally:
        with contextlib.suppress(Exception):
            query.stop()
    return None


def tell(spark: "SparkSession", story: Story, scenario: Scenario) -> None:
    """A life that ends badly, and one that ends well."""
    crash = {"crash.at": scenario.at, "crash.abort": "yes" if scenario.hears_abort else "no"}
    first, second = scenario.tasks
    problem = live(spark, story.life(tasks=first, crash=crash))
    assert story.happened.exists(), f"nothing was killed: {problem}"
    assert problem is not None, "the stream went on as if nothing had happened"
    assert live(spark, story.life(tasks=second)) is None
    story.check()


# Whole drivers.


def _session() -> "SparkSession":
    from pyspark.sql import SparkSession

    from tests.spark.conftest import CONFIGURATION

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONFIGURATION.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def live_alone(life: dict[str, Any]) -> int:
    """A life in a process of its own; its exit code, which is a signal's where the driver was killed."""
    command = [sys.executable, "-m", "tests.spark.sink.crashes", "--life", json.dumps(life)]
    return subprocess.run(command, timeout=_LIFE_S, check=False).returncode


def _live_here(life: dict[str, Any]) -> int:
    spark = _session()
    jvm: Any = spark._jvm
    life["options"]["crash.pid"] = str(jvm.java.lang.ProcessHandle.current().pid())
    problem = live(spark, life)
    with contextlib.suppress(Exception):
        spark.stop()
    return 0 if problem is None else 1


def tell_alone(story: Story, scenario: Scenario) -> None:
    crash = {"crash.at": scenario.at}
    first, second = scenario.tasks
    assert live_alone(story.life(tasks=first, crash=crash)) != 0
    assert story.happened.exists(), "nothing was killed"
    assert live_alone(story.life(tasks=second)) == 0
    story.check()


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--life"]:
        return _live_here(json.loads(arguments[1]))
    on_kafka = "kafka" in arguments
    wanted = [each for each in arguments if each != "kafka"]
    failed = 0
    with running_broker(on_kafka) as broker, tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        for scenario in SCENARIOS:
            if scenario.hears_abort and scenario.at in [
                each.at for each in SCENARIOS if not each.hears_abort
            ]:
                continue  # whole drivers do not hear anything
            if any(word not in scenario.name for word in wanted):
                continue
            try:
                tell_alone(Story(broker.bootstrap, Path(folder)), scenario)
                print(f"once: {scenario.name}", flush=True)
            except AssertionError as wrong:
                failed += 1
                print(f"WRONG: {scenario.name}: {wrong}", flush=True)
    return 1 if failed else 0


def running_broker(on_kafka: bool) -> Any:
    from peers.kafka import ApacheKafka
    from peers.penstock import PenstockProcess

    if on_kafka:
        return ApacheKafka()
    return PenstockProcess(settings={"transaction.two.phase.commit.enable": "true"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
