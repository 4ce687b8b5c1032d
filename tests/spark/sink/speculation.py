"""A task that is slow, and its speculative twin: a program for a Spark cluster, since local Spark makes no twins.

The slow one stops when half of its rows have arrived. Spark starts the twin on another worker, takes its rows, and
gives the slow one up. Its Python process learns that seconds later, and meanwhile goes on: it wakes up when the batch
has been committed, and tries to write its other half.

`tests/spark/test_deployments.py` runs this as a part of its story; `python -m tests.spark.sink.speculation [kafka]`
with a cluster and a broker of its own, in about a minute.
"""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.sink.crashes import Story, live, running_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIGURATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "2s",
    "spark.python.task.killTimeout": "10s",  # the time that the slow one has to wake up
}
# Rows so large that a task sends some before it has all of them.
_WIDE = "rpad(CAST(value AS STRING), 40000, ' ')"
_SMALL_BUFFER = {"kafka.buffer.memory": str(1 << 20), "kafka.batch.size": "100000"}


def speculate(spark: "SparkSession", servers: str, folder: Path) -> bool:
    """Whether there was a twin while the first attempt was under way. AssertionError where a row is not there exactly
    once, or something is left open."""
    story = Story(servers, folder)
    life = story.life(tasks=2, crash={"crash.at": "slow in a task"}, **_SMALL_BUFFER)
    life["options"]["crash.until"] = f"{life['checkpoint']}/commits/1"
    problem = live(spark, {**life, "value": _WIDE})
    assert problem is None, problem
    story.check()
    return Path(f"{story.happened}.twin").exists()


def main(arguments: list[str]) -> int:
    from peers.spark import SparkCluster
    from tests.spark.programs import deployment_story

    with (
        running_broker("kafka" in arguments) as broker,
        SparkCluster() as cluster,
        tempfile.TemporaryDirectory(prefix="speculation-") as folder,
    ):
        spark = deployment_story.session(cluster.address)
        try:
            had_twin = speculate(spark, broker.bootstrap, Path(folder))
            notes = sorted(path.suffix for path in Path(folder).glob("*.happened.*"))
        finally:
            spark.stop()
    print(f"once, {notes}" if had_twin else "WRONG: there was no twin", flush=True)
    return 0 if had_twin else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
