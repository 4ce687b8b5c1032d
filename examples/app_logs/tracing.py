"""Spans stitched into traces, and the call graph that they draw. Three flows:

    traces        from the logs to a topic of traces, a record each; the only one with much state
    trace_table   from that topic to a table of traces
    call_graph    from that topic to a table of who calls whom, kept by `CALL_GRAPH_KEY`

Every event that counts is one span of one trace, and one call of the graph: roots are called from outside.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app_logs.logs import ERROR_STATUS
from app_logs.parsing import WATERMARK_DELAY_S, events, parsed_once
from app_logs.stitching import AFTER_START, TRACE, Span, Stitching, assemble_all

CALL_GRAPH_KEY: Final = ("caller", "callee")
_ACCURACY: Final = 1000


def traces(source: DataFrame) -> DataFrame:
    """Records for the traces topic; for append mode."""
    found = stitch(events(source))
    value = F.to_json(F.struct(*found.columns))
    return found.select(F.col("trace_id").cast("binary").alias("key"), value.cast("binary").alias("value"))


def trace_table(source: DataFrame) -> DataFrame:
    """The table of traces, from the traces topic; a row each."""
    return readable(_from_topic(source))


def call_graph(source: DataFrame) -> DataFrame:
    """Who calls whom, how often, with what success, from the traces topic; for update mode."""
    return calls(_from_topic(source))


def stitch(valid: DataFrame) -> DataFrame:
    """Traces, from events that come as a stream."""
    spans = valid.withColumn("ended_ms", F.unix_millis("event_time"))
    spans = spans.select("trace_id", "event_time", *Span._fields)
    return spans.groupBy("trace_id").transformWithState(
        statefulProcessor=Stitching(watermark_delay_ms=WATERMARK_DELAY_S * 1000),
        outputStructType=TRACE,
        outputMode="append",
        timeMode="eventTime",
    )


def stitch_all(valid: DataFrame) -> DataFrame:
    """The same from events that are all there already: for a batch, where nothing needs to wait."""
    spans = valid.select(
        "*", F.unix_millis("event_time").alias("ended_ms")
    )  # why not withColumn: `declarative`
    grouped = spans.groupBy("trace_id").agg(F.collect_list(F.struct(*Span._fields)).alias("spans"))
    whole = F.udf(assemble_all, TRACE)("trace_id", "spans")
    return grouped.select(whole.alias("trace")).select("trace.*")


def readable(found: DataFrame) -> DataFrame:
    """Traces with their start as a time."""
    started_at = F.timestamp_millis("started_ms").alias("started_at")
    return found.select("trace_id", started_at, *(field.name for field in AFTER_START))


def calls(found: DataFrame) -> DataFrame:
    """The call graph of traces: a row per caller and callee."""
    each = found.select(F.explode("spans").alias("span")).select(
        "span.caller", F.col("span.service").alias("callee"), "span.status", "span.latency_ms"
    )
    summed = each.groupBy("caller", "callee").agg(
        F.count("*").alias("calls"),
        F.count_if(F.col("status") >= ERROR_STATUS).alias("errors"),
        F.sum("latency_ms").alias("latency_ms_sum"),
        F.percentile_approx("latency_ms", [0.5, 0.95], _ACCURACY).alias("percentiles"),
    )
    return summed.select(
        "caller",
        "callee",
        "calls",
        "errors",
        "latency_ms_sum",
        F.col("percentiles")[0].alias("latency_ms_p50"),
        F.col("percentiles")[1].alias("latency_ms_p95"),
    )


def _from_topic(source: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    return source.select(parsed_once(text, TRACE).alias("trace")).select("trace.*")
