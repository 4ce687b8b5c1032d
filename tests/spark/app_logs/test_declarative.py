"""`spark-pipelines run` of the example: tables from a topic, as its specification says.

`tests.spark.programs.declarative_story` checks what further runs add, and a full refresh."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.app_logs import reckoning
from tests.spark.app_logs.flows import Flows
from tests.spark.app_logs.running import make_pipeline, run_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_700_000_000_000


def test_a_triggered_run_fills_the_tables_with_the_same_figures(flows: Flows, tmp_path: Path) -> None:
    from app_logs.generator import Plan, closing_lines, lines
    from app_logs.logs import TOPIC

    plan = Plan(events_per_second=60, malformed_share=0.02, late_share=0.02, unsent_share=0.01)
    made = list(lines(31, count=2_500, start_ms=START_MS, plan=plan))
    made += closing_lines(31, after_ms=made[-1].sent_ms)
    flows.write(TOPIC, made)
    directory = make_pipeline(tmp_path / "pipeline")
    run_pipeline(directory, flows.servers)

    def table(name: str) -> "DataFrame":
        return flows.spark.read.parquet(str(directory / "spark-warehouse" / name))

    events = reckoning.valid_events(made)
    assert table("events").count() == len(events)
    dead = Counter(row["kind"] for row in table("dead_letters").collect())
    assert dead == Counter(line.kind for line in made if line.kind != "valid")
    requests = sum(row["requests"] for row in table("endpoint_minutes").collect())
    spans = sum(row["span_count"] for row in table("traces").collect())
    assert requests == spans == len(events)
    calls = {(row["caller"], row["callee"]): row["calls"] for row in table("call_graph").collect()}
    assert calls == reckoning.call_graph(events)
    assert {row["service"] for row in table("alerts").collect()} >= {"payments"}
