"""Runs a transformation as a stream from a topic, and keeps what comes out as its sink would."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.client.producer import NewRecord
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from app_logs.generator import Line
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def source_row(offset: int, value: bytes | None, sent_ms: int) -> tuple[Any, ...]:
    sent = datetime.fromtimestamp(sent_ms / 1000, UTC)
    return (b"key", value, "app-logs", 0, offset, sent, 0, [])


class Output:
    """What a flow has written: all rows, and the last one per key."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.dropped = 0  # rows that a watermark took

    def by_key(self, *names: str) -> "dict[tuple[Any, ...], Row]":
        return {tuple(row[name] for name in names): row for row in self.rows}


class Flows:
    """The topics and checkpoints of one test."""

    def __init__(self, spark: "SparkSession", servers: str, topics: Topics, directory: Path) -> None:
        self.spark = spark
        self.servers = servers
        self._topics = topics
        self._directory = directory

    def write(self, topic: str, lines: "Iterable[Line]", *, partitions: int = 3) -> None:
        self._topics.create(topic, partitions)
        self.write_more(topic, lines)

    def write_more(self, topic: str, lines: "Iterable[Line]") -> None:
        self._topics.write(
            topic, [NewRecord(line.trace_id.encode(), line.value, timestamp=line.sent_ms) for line in lines]
        )

    def write_rows(self, topic: str, rows: "Sequence[Row]") -> None:
        """What a topic sink would do with these rows."""
        self._topics.create(topic, 2)
        self._topics.write(topic, [_record(row) for row in rows])

    def read(self, topic: str) -> "DataFrame":
        reader = self.spark.read.format("penstock").option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", topic).option("includeHeaders", "true").load()

    def run(
        self, topic: str, transform: Any, *, mode: str, rows_per_batch: int = 0, name: str | None = None
    ) -> Output:
        """Everything that is in the topic now."""
        output = Output()
        query = self.start(topic, transform, output, mode=mode, rows_per_batch=rows_per_batch, name=name)
        assert query.awaitTermination(120), "the flow did not end"
        for progress in query.recentProgress:
            output.dropped += sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
        return output

    def start(
        self,
        topic: str,
        transform: Any,
        output: Output,
        *,
        mode: str,
        rows_per_batch: int = 0,
        once: bool = True,
        name: str | None = None,
    ) -> "StreamingQuery":
        reader = self.spark.readStream.format("penstock").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", rows_per_batch)
        writer = transform(reader.load()).writeStream.outputMode(mode)
        writer = writer.foreachBatch(lambda frame, _number: output.rows.extend(frame.collect()))
        checkpoint = self._directory / "checkpoints" / (name or transform.__name__)
        writer = writer.option("checkpointLocation", str(checkpoint))
        trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": "200 milliseconds"}
        return writer.trigger(**trigger).start()


def _record(row: "Row") -> NewRecord:
    given = row.asDict().get("headers", [])
    headers = tuple((header["key"], bytes(header["value"])) for header in given)
    return NewRecord(bytes(row["key"]), bytes(row["value"]), headers)
