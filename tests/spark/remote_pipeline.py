"""A project for `penstock pipeline run --remote`, one flow for each way to write. What it wrote is read without Spark.

It runs twice, and in between more records come. Spark also forgets that its first batches are done, as if it had been
killed after they were written, so they come again.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from peers.spark import environment
from penstock.spark.pipelines.paths import checkpoint_of
from penstock.spark.pipelines.project import Project
from penstock.spark.tables import open_table
from penstock.spark.tables.manifest import read_manifest
from tests.spark.pipelines.projects import make_project, send

TIMEOUT_S = 600
SOURCE, COPY, COUNTS = "remote-words", "remote-copy", "remote-counts"

FLOWS = f"""
[flows.copy]
from = "{SOURCE}"
transform = "@M:shouted"
to = {{ topic = "{COPY}" }}
[flows.counts]
from = "{SOURCE}"
transform = "@M:counted"
to = {{ topic = "{COUNTS}" }}
output_mode = "update"
[flows.latest]
from = "{SOURCE}"
transform = "@M:counted"
to = {{ table = "counts", key = ["key"] }}
output_mode = "update"
"""
FUNCTIONS = """
def shouted(records):
    shout = F.udf(lambda word: word.upper(), "string")  # runs in a worker, which has to have this module
    return records.select(shout(F.col("value").cast("string")).alias("value"))


def counted(records):
    counts = records.groupBy(F.upper(F.col("value").cast("string")).alias("key")).count()
    return counts.select("key", F.col("count").cast("string").alias("value"))
"""


def run_pipeline(address: str, servers: str, folder: Path) -> dict[str, Any]:
    """What is in the topics and the table after the second run, and the rows that flows told of in the first."""
    settings = '[spark]\n"spark.sql.shuffle.partitions" = "1"'
    project = make_project(folder, servers, FLOWS, FUNCTIONS, settings=settings)
    for topic in (COPY, COUNTS):
        send(servers, topic, [])
    send(servers, SOURCE, ["a", "b", "a"])
    views = json.loads(_run_once(address, folder))
    _forget_last_batch(project)
    send(servers, SOURCE, ["a"])
    _run_once(address, folder)
    return {
        "rows": {view["flow"]: view["rows"] for view in views},
        "copy": [record["value"] for record in _records(servers, COPY)],
        "counts": [(record["key"], record["value"]) for record in _records(servers, COUNTS)],
        "latest": {row["key"]: row["value"] for row in _rows(project, "counts")},
    }


def _run_once(address: str, folder: Path) -> str:
    return _penstock("pipeline", "run", str(folder), "--once", "--json", "--remote", address)


def _penstock(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"[-6000:]
    return done.stdout


def _forget_last_batch(project: Project) -> None:
    for flow in project.flows.values():
        commits = checkpoint_of(project, flow) / "commits"
        last = max(
            (each for each in commits.iterdir() if each.name.isdigit()), key=lambda each: int(each.name)
        )
        last.with_name(f".{last.name}.crc").unlink()
        last.unlink()


def _records(servers: str, topic: str) -> list[dict[str, Any]]:
    lines = _penstock("consume", topic, "--committed", "--json", "-b", servers).splitlines()
    return [json.loads(line) for line in lines]


def _rows(project: Project, name: str) -> list[dict[str, Any]]:
    table = open_table(project.state / "tables", name)
    files = read_manifest(table.folder).files
    return [row for each in files for row in pq.read_table(table.folder / each.path).to_pylist()]
