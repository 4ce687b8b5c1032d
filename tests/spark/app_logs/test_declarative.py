"""`spark-pipelines run` of the example: tables from a topic, as the specification beside it says."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.app_logs import reckoning
from tests.spark.app_logs.flows import Flows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "app_logs"
START_MS = 1_700_000_000_000


def run_pipeline(directory: Path, servers: str) -> None:
    (directory / "declarative.py").symlink_to(EXAMPLE / "declarative.py")
    specification = (EXAMPLE / "spark-pipeline.yml").read_text()
    storage = "storage: file:///tmp/app_logs-pipeline"
    assert storage in specification
    (directory / "spark-pipeline.yml").write_text(
        specification.replace(storage, f"storage: {(directory / 'storage').as_uri()}")
    )
    finished = subprocess.run(
        [str(Path(sys.executable).parent / "spark-pipelines"), "run"],
        cwd=directory,
        env={
            **os.environ,
            "APP_LOGS_BOOTSTRAP_SERVERS": servers,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-6000:]


def test_a_triggered_run_fills_the_tables_with_the_same_figures(flows: Flows, tmp_path: Path) -> None:
    from app_logs.generator import Plan, closing_lines, lines
    from app_logs.logs import TOPIC

    plan = Plan(events_per_second=60, malformed_share=0.02, late_share=0.02, unsent_share=0.01)
    made = list(lines(31, count=2_500, start_ms=START_MS, plan=plan))
    made += closing_lines(31, after_ms=made[-1].sent_ms)
    flows.write(TOPIC, made)
    directory = tmp_path / "pipeline"
    directory.mkdir()
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
