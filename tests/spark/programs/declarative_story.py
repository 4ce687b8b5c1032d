"""The example's declarative pipeline over three runs: all records, then the new ones, then a full refresh.

    python -m tests.spark.programs.declarative_story        # minutes: each run starts a Spark of its own

Not part of the suite, which has the first run. Reads the tables without Spark, and fails if a figure is not that of the
records that were written.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from penstock.client.producer import NewRecord
from penstock.testing import EmbeddedBroker
from tests.spark.app_logs import reckoning
from tests.spark.app_logs.running import EXAMPLE, make_pipeline, run_pipeline
from tests.spark.writing import Topics

if TYPE_CHECKING:
    from app_logs.generator import Line

START_MS = 1_700_000_000_000


def rows_of(directory: Path, table: str) -> list[dict[str, Any]]:
    files = sorted((directory / "spark-warehouse" / table).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def check(directory: Path, made: "list[Line]") -> None:
    """That every table has exactly what follows from these lines."""
    valid = reckoning.valid_events(made)
    told = {name: rows_of(directory, name) for name in ("events", "endpoint_minutes", "traces", "call_graph")}
    counts = {
        "events": len(told["events"]),
        "requests": sum(row["requests"] for row in told["endpoint_minutes"]),
        "spans": sum(row["span_count"] for row in told["traces"]),
    }
    print(f"  {counts}, of {len(valid)} valid lines", flush=True)
    assert set(counts.values()) == {len(valid)}
    calls = {(row["caller"], row["callee"]): row["calls"] for row in told["call_graph"]}
    assert calls == reckoning.call_graph(valid)
    dead = Counter(row["kind"] for row in rows_of(directory, "dead_letters"))
    print(f"  dead letters {dict(dead)}", flush=True)
    assert dead == Counter(line.kind for line in made if line.kind != "valid")


def main() -> None:
    sys.path.insert(0, str(EXAMPLE.parent))
    from app_logs.generator import Plan, lines
    from app_logs.logs import TOPIC

    plan = Plan(events_per_second=60, malformed_share=0.02, late_share=0.02, unsent_share=0.01)
    first = list(lines(31, count=2_500, start_ms=START_MS, plan=plan))
    later = list(lines(32, count=500, start_ms=first[-1].sent_ms + 60_000, plan=plan))
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedBroker(settings={"log.retention.ms": "-1"}) as broker,
    ):
        directory = make_pipeline(Path(folder) / "pipeline")
        topics = Topics(broker.bootstrap_servers)
        topics.create(TOPIC, 2)

        def write(some: "list[Line]") -> None:
            records = [NewRecord(line.trace_id.encode(), line.value, timestamp=line.sent_ms) for line in some]
            topics.write(TOPIC, records)

        def run(title: str, *words: str) -> None:
            began_s = time.monotonic()
            run_pipeline(directory, broker.bootstrap_servers, *words)
            print(f"{title}: {time.monotonic() - began_s:.0f} s", flush=True)

        write(first)
        run("first run")
        check(directory, first)
        write(later)
        run("second run, after more records")
        check(directory, first + later)
        run("full refresh", "--full-refresh-all")
        check(directory, first + later)


if __name__ == "__main__":
    main()
