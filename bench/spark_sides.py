"""The two sides of the Spark measures: our source and sink, and Spark's own Kafka connector.

Both work in one session on two cores, on one Penstock broker and on the same topics, so that nothing but the connector
differs. In the table the column Kafka is Spark's own connector here. Leaves out Apache Kafka as a broker.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contestants import KAFKA, PENSTOCK, Contestant, new_penstock
from bench.load.throughput import Case, produce
from peers.spark import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

CORES = 2
_CONFIGURATION = {
    "spark.driver.memory": "2g",
    "spark.jars": "",  # the connector's, when a session is made
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class SparkSide:
    """One connector, under the name of the column it fills."""

    def __init__(self, name: str, spark: "SparkSession", broker: Contestant, folder: Path) -> None:
        self.name = name
        self.spark = spark
        self.broker = broker
        self.folder = folder

    @property
    def is_ours(self) -> bool:
        return self.name == PENSTOCK

    def read(self, topic: str) -> "DataFrame":
        reader = self.spark.read.format(self.name)
        return reader.options(**self._where(), subscribe=topic).load()

    def write(self, frame: "DataFrame", topic: str, **options: str) -> None:
        # Spark's own connector is an append whatever the mode; a source in Python has to be told.
        writer = frame.write.mode("append").format(self.name)
        writer.options(**self._where(), topic=topic, **options).save()

    def start_stream(
        self, source: str, target: str, transform: "Callable[[DataFrame], DataFrame]"
    ) -> "StreamingQuery":
        """From topic to topic, as fast as batches come, from the beginning of the source."""
        reader = self.spark.readStream.format(self.name).options(**self._where())
        frame = reader.options(subscribe=source, startingOffsets="earliest", includeHeaders="true").load()
        writer = transform(frame).writeStream.outputMode("update")
        checkpoint = str(self.folder / f"checkpoint-{target}")
        if self.is_ours:
            # Spark takes no updates for sinks in Python, but batches of them.
            writer = writer.foreachBatch(
                lambda rows, _: self.write(rows, target, **{"penstock.foreach.batch": "alerts"})
            )
            return writer.option("checkpointLocation", checkpoint).start()
        writer = writer.format(self.name).options(**self._where(), topic=target)
        return writer.option("checkpointLocation", checkpoint).start()

    def _where(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.broker.bootstrap}


class Topics:
    """Topics that are filled once and read by both sides; they go with their broker."""

    def __init__(self) -> None:
        self._filled: dict[tuple[str, Case], str] = {}

    def filled(self, broker: Contestant, case: Case) -> str:
        key = (broker.bootstrap, case)
        if key not in self._filled:
            name = broker.create_lasting(partitions=case.partitions)
            produce(broker.bootstrap, name, case)
            self._filled[key] = name
        return self._filled[key]


TOPICS = Topics()


@contextlib.contextmanager
def spark_sides() -> Iterator[list[SparkSide]]:
    """Both sides, ready: a broker, and a session that has the connector's jars."""
    with Contestant(PENSTOCK, new_penstock) as broker, _session() as spark, _folder() as folder:
        yield [SparkSide(name, spark, broker, folder) for name in (PENSTOCK, KAFKA)]


def seconds_of(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


@contextlib.contextmanager
def _session() -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    for name, value in {**_CONFIGURATION, "spark.jars": connector_jars()}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        yield Path(name)
