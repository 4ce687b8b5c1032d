"""The core of what source and sink promise, as a program for any Spark: its master or Connect address is an argument.

Prints one line of JSON, what was found by the name of the step. Judging it is the test's part.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from peers.spark import SHORT_LIVED
from tests.spark.sink import speculation
from tests.spark.writing import Topics

RECORDS = 40
TIMEOUT_S = 200
CONFIGURATION = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}
# Of sessions with a Spark of their own; a Connect server has been told already.
OWN_CONFIGURATION = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.executor.memory": "600m",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    **speculation.CONFIGURATION,
}


def session(address: str) -> SparkSession:
    remote = address.startswith("sc://")
    builder = SparkSession.builder.remote(address) if remote else SparkSession.builder.master(address)
    for name, value in (CONFIGURATION if remote else CONFIGURATION | OWN_CONFIGURATION).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Story:
    """Each method is a step with a topic of its own, and returns what it found."""

    def __init__(self, spark: SparkSession, servers: str, name: str, folder: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._name = name
        self._folder = folder
        self._topics = Topics(servers)

    def batch(self) -> Any:
        """Everything that was written, read in more tasks than there are partitions."""
        topic = self._filled("batch")
        return _values(self._read(subscribe=topic, minPartitions="4", includeHeaders="true"))

    def chosen_columns(self) -> Any:
        topic = self._filled("columns")
        reader = self._spark.read.format("penstock").schema("offset long, value binary")
        frame = reader.options(**self._where(), subscribe=topic).load().where("offset < 2")
        return [frame.columns, _values(frame)]

    def filters(self) -> Any:
        """Partition 0 has lost its first records: only a reader that does not plan it at all succeeds."""
        topic = self._filled("filters")
        self._topics.cut(topic, 0, 5)
        options = {
            "subscribe": topic,
            "startingOffsets": json.dumps({topic: {"0": 0, "1": 0}}),
            "penstock.filter.pushdown": "true",
        }
        rows = _values(self._read(**options).where("partition = 1"))
        return [rows, _problem(self._read(**options).collect)]

    def misspelt(self) -> Any:
        return _problem(lambda: self._read(subscribe="any", startingOffset="earliest").collect())

    def stream(self) -> Any:
        """Into files, in two runs from one checkpoint."""
        topic = self._filled("stream")
        sizes = self._run_stream(topic)
        self._fill(topic, RECORDS)
        sizes += self._run_stream(topic)
        return [sizes, _values(self._spark.read.parquet(str(self._folder / "out")))]

    def sink(self) -> Any:
        """From topic to topic, exactly once, in two runs from one checkpoint."""
        topic, copy = self._filled("sink"), f"{self._name}-copy"
        self._topics.create(copy, 3)
        for begin in (RECORDS, 2 * RECORDS):
            reader = self._spark.readStream.format("penstock").options(**self._where(), subscribe=topic)
            frame = reader.option("startingOffsets", "earliest").load().select("value")
            writer = frame.writeStream.format("penstock").options(**self._where(), topic=copy)
            writer = writer.option("checkpointLocation", str(self._folder / "sink"))
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(TIMEOUT_S), query.status
            self._fill(topic, begin)
        return _values(self._read(subscribe=copy))

    def _run_stream(self, topic: str) -> list[int]:
        reader = self._spark.readStream.format("penstock").options(**self._where(), subscribe=topic)
        frame = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(RECORDS // 2)).load()
        writer = frame.writeStream.format("parquet").option("path", str(self._folder / "out"))
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S), query.status
        return [progress["sources"][0]["numInputRows"] for progress in query.recentProgress]

    def _filled(self, step: str) -> str:
        topic = f"{self._name}-{step}"
        self._topics.create(topic, 2)
        self._fill(topic, 0)
        return topic

    def _fill(self, topic: str, begin: int) -> None:
        for partition in range(2):
            numbers = range(begin + partition, begin + RECORDS, 2)
            self._topics.write_values(topic, [str(each) for each in numbers], partition=partition)

    def _read(self, **options: str) -> DataFrame:
        return self._spark.read.format("penstock").options(**self._where(), **options).load()

    def _where(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._servers}


def _values(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def _problem(action: Callable[[], Any]) -> str:
    try:
        action()
    except Exception as error:
        return str(error)
    return ""


def main() -> None:
    address, servers, name, folder = sys.argv[1:]
    spark = session(address)
    try:
        story = Story(spark, servers, name, Path(folder))
        steps = (
            *(story.batch, story.chosen_columns, story.filters, story.misspelt),
            *(story.stream, story.sink),
        )
        found = {step.__name__: step() for step in steps}
        if address.startswith("spark://"):  # local Spark, which the Connect server has, knows no speculation
            found["speculation"] = speculation.speculate(spark, servers, Path(folder))
        print(json.dumps(found), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
