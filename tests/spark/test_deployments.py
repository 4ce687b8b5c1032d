"""The core of source and sink on a standalone cluster and through Spark Connect: only the address changes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peers.spark import SparkCluster, SparkConnect, environment
from penstock.testing import EmbeddedBroker
from tests.spark.programs import deployment_story
from tests.spark.programs.deployment_story import RECORDS
from tests.spark.remote_pipeline import run_pipeline

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 600
ALL = list(range(RECORDS))


@pytest.fixture(scope="module", params=["cluster", "connect"])
def found(
    request: pytest.FixtureRequest, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """What the story found there."""
    name: str = request.param
    with SparkCluster() if name == "cluster" else SparkConnect() as deployment:
        told = _told(deployment.address, broker.bootstrap_servers, name, tmp_path_factory.mktemp(name))
        if name == "cluster":
            assert deployment.executors_started == 2
        else:
            folder = tmp_path_factory.mktemp("pipeline")
            told["pipeline"] = run_pipeline(deployment.address, broker.bootstrap_servers, folder)
        yield told


def _told(address: str, servers: str, name: str, folder: Path) -> dict[str, Any]:
    program = deployment_story.__name__
    done = subprocess.run(
        [sys.executable, "-m", program, address, servers, f"deployment-{name}", str(folder)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"[-6000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_a_batch_read_equals_what_was_written(found: dict[str, Any]):
    assert found["batch"] == ALL


def test_a_schema_chooses_columns(found: dict[str, Any]):
    assert found["chosen_columns"] == [["offset", "value"], [0, 1, 2, 3]]


def test_a_filter_is_pushed_down_to_what_is_planned(found: dict[str, Any]):
    rows, problem = found["filters"]
    assert rows == ALL[1::2]
    assert "data is lost: offsets 0 to 4" in problem


def test_a_stream_goes_on_after_a_restart(found: dict[str, Any]):
    sizes, rows = found["stream"]
    assert sizes == [RECORDS // 2] * 4
    assert rows == list(range(2 * RECORDS))


def test_a_misspelt_option_is_said_so(found: dict[str, Any]):
    assert "did you mean startingOffsets?" in found["misspelt"]


def test_a_stream_from_topic_to_topic_writes_every_record_once(found: dict[str, Any]):
    assert found["sink"] == list(range(2 * RECORDS))


@pytest.mark.parametrize("found", ["cluster"], indirect=True)
def test_a_slow_task_and_its_speculative_twin_write_every_record_once(found: dict[str, Any]):
    """That every record was there once, the story has seen; here, that there was a twin."""
    assert found["speculation"] is True


@pytest.mark.parametrize("found", ["connect"], indirect=True)
def test_flows_of_a_pipeline_write_topics_and_tables_once_though_batches_come_again(found: dict[str, Any]):
    told = found["pipeline"]
    assert sorted(told["copy"]) == ["A", "A", "A", "B"]
    assert sorted(told["counts"]) == [("A", "2"), ("A", "3"), ("B", "1")]
    assert told["latest"] == {"A": "3", "B": "1"}
    assert told["rows"] == {"copy": 3, "counts": 3, "latest": 3}
