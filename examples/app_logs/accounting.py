"""Recounts topics and tables: produced = analysed + dead-lettered, in every flow, and nothing twice.

Each table lets one count the events in it again:

    endpoint_minutes   every event is a request of one endpoint in one minute: the sum of `requests`
    traces             every event is a span of one trace: the sum of `span_count`, and no span id twice
    call_graph         every event is one call: the sum of `calls`

Alerts are no counts. They are right if every window that, looked at as a whole, is over a threshold has its alert.
(A window that was over it only until more events came has one, too: it was true when it was sent.)
"""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app_logs.dead_letters import read_back
from app_logs.monitoring import thresholds_crossed, windows
from app_logs.parsing import events


class FlowCount(NamedTuple):
    """What one table holds; `twice` counts what is there more often than it should be."""

    flow: str
    analysed: int
    twice: int = 0


class Recount(NamedTuple):
    """The whole of it; `dead_lettered` by kind."""

    produced: int
    dead_lettered: dict[str, int]
    flows: tuple[FlowCount, ...]
    alerts_missing: int

    @property
    def is_balanced(self) -> bool:
        return self.alerts_missing == 0 and all(self.balances(flow) for flow in self.flows)

    def balances(self, flow: FlowCount) -> bool:
        return self.produced == flow.analysed + sum(self.dead_lettered.values()) and flow.twice == 0

    def lines(self) -> list[str]:
        """For the terminal: one per flow, then the verdict."""
        dead = sum(self.dead_lettered.values())
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.dead_lettered.items()))
        told = [f"produced {self.produced:,}, dead-lettered {dead:,} ({kinds or 'none'})"]
        for flow in self.flows:
            told.append(
                f"{flow.flow}: {flow.analysed:,} analysed + {dead:,} dead-lettered "
                f"{'=' if self.balances(flow) else '≠'} {self.produced:,} produced, {flow.twice:,} twice"
            )
        told.append(f"alerts missing: {self.alerts_missing:,}")
        told.append("balanced" if self.is_balanced else "NOT balanced")
        return told


def recount(
    *,
    logs: DataFrame,
    dead_letters: DataFrame,
    alerts: DataFrame,
    endpoint_minutes: DataFrame,
    traces: DataFrame,
    call_graph: DataFrame,
) -> Recount:
    """Count again, from the three topics (batch reads, dead letters with headers) and the three tables."""
    return Recount(
        produced=logs.count(),
        dead_lettered=count_dead_letters(dead_letters),
        flows=(
            FlowCount("endpoint_minutes", total(endpoint_minutes, "requests")),
            FlowCount("traces", total(traces, "span_count"), count_twice(traces)),
            FlowCount("call_graph", total(call_graph, "calls")),
        ),
        alerts_missing=count_missing_alerts(logs, alerts),
    )


def total(table: DataFrame, column: str) -> int:
    (row,) = table.agg(F.coalesce(F.sum(column), F.lit(0)).cast("long").alias("total")).collect()
    return int(row["total"])


def count_twice(traces: DataFrame) -> int:
    """How many spans are in the table more than once; an upsert table cannot have a row twice, this one could."""
    spans = traces.select("trace_id", F.explode("spans.span_id").alias("span_id"))
    return spans.count() - spans.distinct().count()


def count_dead_letters(letters: DataFrame) -> dict[str, int]:
    """By kind, each record of the logs once."""
    counts = read_back(letters).groupBy("kind").count().collect()
    return {row["kind"]: row["count"] for row in counts}


def count_missing_alerts(logs: DataFrame, alerts: DataFrame) -> int:
    """How many windows of the logs are over a threshold as a whole and have no alert."""
    expected = thresholds_crossed(windows(events(logs))).select("alert_id")
    told = alerts.select(F.col("key").cast("string").alias("alert_id")).distinct()
    return expected.join(told, "alert_id", "left_anti").count()
