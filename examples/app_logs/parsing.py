"""From records to events, and why a record is none. Every flow begins here, so that all agree which records count.

A record is *malformed* if it is not JSON, or lacks a field, or has one of the wrong type or out of range. It is *late*
if its timestamp is more than `ALLOWED_LATENESS_S` behind the event's own time, and *early* if the event claims a time
more than `ALLOWED_SKEW_S` ahead of it. The timestamp is the record's: the service's logger sets it when it sends, or
the broker when the topic has `message.timestamp.type=LogAppendTime`. Either way it is part of the record: the same
record gets the same verdict in every flow, in every batch, after every restart.

Spark has a notion of lateness of its own, the watermark, which does depend on batches: rows behind it are dropped, and
only a count tells. It must never strike what counts by the rule above. The watermark is the latest event time of
earlier batches, less a delay. Event times are at most `ALLOWED_SKEW_S` ahead of their records' timestamps and at most
`ALLOWED_LATENESS_S` behind, so a delay of both together would do if records came in the order of their timestamps.
Partitions are read side by side, and one may be ahead of another by what `READ_AHEAD_S` allows: since keys spread
evenly, and limits on a batch are shared by backlog, that takes a partition that stood still for that long while others
went on. The delay of every watermark here is the sum of the three. In update mode nothing waits for it: it only says
how long the state of a window is kept. `numRowsDroppedByWatermark` of a query's progress stays 0; if not, raise
`READ_AHEAD_S`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from app_logs.logs import ALLOWED_LATENESS_S, ALLOWED_SKEW_S, EARLY, ERROR_STATUS, LATE, MALFORMED

READ_AHEAD_S: Final = 600
WATERMARK_DELAY_S: Final = ALLOWED_LATENESS_S + ALLOWED_SKEW_S + READ_AHEAD_S

EVENT: Final = StructType(
    [
        StructField("event_id", StringType()),
        StructField("trace_id", StringType()),
        StructField("span_id", StringType()),
        StructField("parent_span_id", StringType()),  # null: the request came from outside
        StructField("service", StringType()),
        StructField("endpoint", StringType()),
        StructField("status", IntegerType()),
        StructField("latency_ms", DoubleType()),
        StructField("calls", IntegerType()),
        StructField("event_time", TimestampType()),
        StructField("message", StringType()),  # for people; may be missing
    ]
)
REQUIRED: Final = tuple(name for name in EVENT.names if name not in {"parent_span_id", "message"})


def events(source: DataFrame) -> DataFrame:
    """The events of the records that count, with partition and offset of the record; all times with a watermark."""
    judged = judge(source).where(F.col("kind").isNull())
    return judged.select("event.*", "partition", "offset", "timestamp").withWatermark(
        "event_time", f"{WATERMARK_DELAY_S} seconds"
    )


def rejected(source: DataFrame) -> DataFrame:
    """The records that do not count, as they were read, with `kind` (malformed, late or early) and `reason`."""
    return judge(source).where(F.col("kind").isNotNull()).drop("event", "text")


def judge(source: DataFrame) -> DataFrame:
    """The records with their `event`, and with `kind` and `reason`, which are null where it counts."""
    text = source.withColumn("text", F.col("value").cast("string"))
    parsed = text.select("*", parsed_once("text", EVENT).alias("event")).withColumn("malformed", _malformed())
    age = F.col("timestamp").cast("double") - F.col("event.event_time").cast("double")
    kind = (
        F.when(F.col("malformed").isNotNull(), MALFORMED)
        .when(age > ALLOWED_LATENESS_S, LATE)
        .when(age < -ALLOWED_SKEW_S, EARLY)
    )
    reason = (
        F.when(F.col("kind") == LATE, f"more than {ALLOWED_LATENESS_S} s older than its record")
        .when(F.col("kind") == EARLY, f"more than {ALLOWED_SKEW_S} s ahead of its record")
        .otherwise(F.col("malformed"))
    )
    return parsed.withColumn("kind", kind).withColumn("reason", reason).drop("malformed")


def parsed_once(text: str | Column, schema: StructType) -> Column:
    """What `from_json` makes of the text, as an array's only element, taken out of it again. Spark moves no expression
    across an explode. Without it a filter on the result parses the text again for each field that it looks at, 28 times
    here, which took bursts both cores of a small machine."""
    return F.explode(F.array(F.from_json(text, schema)))


def is_error(status: str = "status") -> Column:
    return F.col(status) >= ERROR_STATUS


def _malformed() -> Column:
    """Why the text is no event, or null. Looked at again only where a field is missing from what was parsed."""
    found = F.when(F.col("text").isNull(), "no value")
    found = found.when(F.col("event.event_id").isNull() & F.get_json_object("text", "$").isNull(), "not JSON")
    for name in REQUIRED:
        absent = F.col(f"event.{name}").isNull()
        there = F.get_json_object("text", f"$.{name}").isNotNull()
        found = found.when(absent & there, f"{name} has the wrong type")
        found = found.when(absent, f"{name} is missing")
    found = found.when(~F.col("event.status").between(100, 599), "status is out of range")
    # A comparison with NaN holds nowhere else: Spark sorts it above all numbers.
    found = found.when(~F.col("event.latency_ms").between(0, 86_400_000), "latency_ms is out of range")
    return found.when(~F.col("event.calls").between(0, 10_000), "calls is out of range")
