"""When a failed flow is restarted, and which cause of the failure is reported. Pure."""

from pathlib import Path

import pytest

from penstock.spark.pipelines.failures import cause_of, is_late_worker
from penstock.spark.pipelines.project import Project, parse_project
from penstock.spark.pipelines.restarts import Restarts


def project(**settings: int) -> Project:
    head = "\n".join(f"{name} = {value}" for name, value in settings.items())
    body = '[flows.one]\nfrom = "a"\ntransform = "m:f"\nto = { topic = "b" }'
    return parse_project(f"{head}\n{body}", directory=Path("/p"))


def test_the_wait_doubles_up_to_its_limit_and_then_it_is_given_up() -> None:
    restarts = Restarts(project(restarts_max=5, restart_delay_ms=500, restart_delay_ms_max=3_000).settings)

    assert [restarts.failed(10.0) for _ in range(6)] == [10.5, 11.0, 12.0, 13.0, 13.0, None]


def test_a_finished_batch_resets_the_count_of_restarts() -> None:
    restarts = Restarts(project(restarts_max=2, restart_delay_ms=1_000).settings)
    restarts.failed(0.0)
    restarts.failed(0.0)

    restarts.progressed()

    assert restarts.failed(0.0) == 1.0
    assert restarts.in_all == 3


def test_there_is_no_restart_with_restarts_max_0() -> None:
    assert Restarts(project(restarts_max=0).settings).failed(0.0) is None


PYTHON_SOURCE = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: SQLSTATE: XXKST
Traceback (most recent call last):
  File "stream_reader.py", line 70, in initialOffset
penstock.base.errors.UserError: topic orders does not exist on localhost:9092; did you mean order?

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: x
"""
FOREACH_BATCH = """Traceback (most recent call last):
  File "utils.py", line 163, in call
  File "merging.py", line 29, in merge
py4j.protocol.Py4JJavaError: An error occurred while calling o159.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4568)
Caused by: org.apache.spark.SparkException: File /tmp/a.zip exists and does not match
\tat org.apache.spark.util.Utils$.copyFile(Utils.scala:577)
"""
WORKER = """[STREAM_FAILED] Query terminated
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "shop.py", line 3, in price
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PYTHON_SOURCE, "topic orders does not exist on localhost:9092; did you mean order?"),
        (FOREACH_BATCH, "File /tmp/a.zip exists and does not match"),
        (WORKER, "ZeroDivisionError: division by zero"),
        ("[UNRESOLVED_COLUMN] there is no column `x`\n'Project", "there is no column `x`"),
        ("", "Spark gave no reason"),
        ("x" * 1000, "x" * 400 + " …"),
    ],
)
def test_pages_of_traces_become_the_line_that_tells_most(text: str, told: str) -> None:
    assert cause_of(text) == told


LATE = "flow table cannot be started: Timed out while waiting for the Python worker to connect back"


def test_a_worker_that_is_late_is_told_from_a_query_that_is_wrong() -> None:
    assert is_late_worker(LATE)
    assert not is_late_worker("flow table cannot be started: there is no column `x`")
