"""`penstock pipeline`, from a new project to a table; on a real broker and a real Spark."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.cli.parsing import BOOTSTRAP_VARIABLE
from tests.cli.running import Penstock, command, environment
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def project(penstock: Penstock, bootstrap: str, topic: str, tmp_path: Path) -> Path:
    """A new project, and 100 records for it."""
    assert penstock("topic", "create", topic, "--partitions", "2").code == 0
    assert penstock("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(100))).code == 0
    folder = tmp_path / "shop"
    written = penstock("pipeline", "init", folder, "--topic", topic, "-b", bootstrap)
    assert written.code == 0
    assert written.lines[0] == f"wrote {folder}/pipeline.toml"
    return folder


def test_a_new_project_runs_is_described_stopped_and_reset(
    penstock: Penstock, project: Path, topic: str
) -> None:
    spark_environment = {**environment(), "PYSPARK_PYTHON": sys.executable}
    once = subprocess.run(
        command("pipeline", "run", project, "--once", "--json"),
        env=spark_environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert once.returncode == 0, once.stdout + once.stderr
    assert '"state": "done"' in once.stdout
    assert '"rows": 100' in once.stdout
    assert " s  counts " in once.stderr, "progress is written as lines of a log"
    assert "\x1b" not in once.stderr

    described = penstock("pipeline", "describe", project, "--json").document
    (flow,) = described["flows"]
    assert (flow["name"], flow["lag"], flow["in_batch"], described["running_as"]) == (
        "counts",
        0,
        False,
        None,
    )
    assert sum(flow["positions"][topic].values()) == 100
    assert flow["table_rows"] >= 1
    assert "not running" in penstock("pipeline", "describe", project).lines[0]
    group = penstock("group", "describe", "shop.counts", "--json").document
    assert [each["lag"] for each in group] == [0]

    with Terminal(
        command("pipeline", "run", project), environment=spark_environment, columns=50, lines=24
    ) as terminal:
        terminal.wait_for("\x1b[2F\x1b[JFLOW", timeout_s=100)  # the table is drawn over the one before
        refused = penstock("pipeline", "reset", "counts", project, "--yes")
        assert (refused.code, refused.out) == (1, "")
        assert f"pipeline shop is running, as process {terminal.pid}: stop that one first" in refused.err
        started = terminal.started()
        assert "java" in {each.name() for each in started}
        terminal.interrupt()
        assert terminal.wait(timeout_s=60) == 0, terminal.output
        left = psutil.wait_procs(started, timeout=60)[1]
    assert left == [], "nothing that Spark had started stays behind"
    assert "Traceback" not in terminal.output
    drawn = [line for line in terminal.output.splitlines() if line.startswith(("counts ", "FLOW "))]
    assert max(map(len, drawn)) == 50
    assert terminal.output.splitlines()[-1].startswith("counts: stopped, ")

    reset = penstock("pipeline", "reset", "counts", project, "--yes")
    assert reset.lines == [
        "reset counts: removed its checkpoint, table records_per_minute, group shop.counts"
    ]
    (flow,) = penstock("pipeline", "describe", project, "--json").document["flows"]
    assert (flow["batches"], flow["lag"], flow["table_rows"]) == (0, 100, 0)


def test_the_function_of_a_new_project_passes_its_own_test(offline: Penstock, tmp_path: Path) -> None:
    assert offline("pipeline", "init", tmp_path / "shop").code == 0

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--override-ini=addopts="],
        cwd=tmp_path / "shop",
        env={**environment(), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["init", "Shop!"], 1, "a project cannot be called 'Shop!': lower-case letters"),
        (["run", "nowhere"], 1, "there is no pipeline.toml in nowhere: `penstock pipeline init NAME` writes"),
        (
            ["run", "--master", "local", "--remote", "sc://x"],
            2,
            "--master and --remote exclude each other",
        ),
        (["run", "--duration", "-3"], 2, "'-3' is not a number of seconds above 0"),
        (["rnu"], 2, "invalid choice: 'rnu'"),
    ],
)
def test_a_wrong_call_is_one_line(offline: Penstock, words: list[str], code: int, told: str) -> None:
    outcome = offline("pipeline", *words)

    assert (outcome.code, outcome.out) == (code, "")
    assert told in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_directory_with_something_in_it_is_left_alone(offline: Penstock, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine").touch()

    outcome = offline("pipeline", "init", tmp_path / "shop")

    assert (outcome.code, outcome.out) == (1, "")
    assert "is there already and is not empty" in outcome.err
    assert [each.name for each in (tmp_path / "shop").iterdir()] == ["mine"]


def test_a_flow_that_is_not_there_is_answered_with_the_nearest(offline: Penstock, tmp_path: Path) -> None:
    assert offline("pipeline", "init", tmp_path / "shop").code == 0

    outcome = offline("pipeline", "reset", "count", tmp_path / "shop", "--yes")

    assert "unknown flow 'count'; did you mean counts?; there are counts" in outcome.err


def test_running_without_a_broker_says_so_before_anything_else(offline: Penstock, tmp_path: Path) -> None:
    assert offline("pipeline", "init", tmp_path / "shop", "-b", "localhost:1").code == 0

    with subprocess.Popen(
        command("pipeline", "run", tmp_path / "shop"),
        env={**environment(), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == "penstock: localhost:1 does not answer, trying again\n"
        finally:
            process.terminate()


def test_a_project_is_described_without_a_broker(offline: Penstock, tmp_path: Path) -> None:
    assert offline("pipeline", "init", tmp_path / "shop", "-b", "localhost:1").code == 0

    outcome = offline("pipeline", "describe", tmp_path / "shop")

    assert outcome.code == 0
    assert "  broker  localhost:1, which does not answer" in outcome.lines


def test_the_environment_says_where_the_broker_of_a_project_is(
    offline: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "first:1111")
    assert offline("pipeline", "init", tmp_path / "flows").code == 0
    written = (tmp_path / "flows" / "pipeline.toml").read_text()
    assert 'bootstrap_servers = "first:1111"' in written
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "localhost:2")
    described = offline("pipeline", "describe", tmp_path / "flows")
    assert "localhost:2, which does not answer" in described.out
    described = offline("pipeline", "describe", tmp_path / "flows", "-b", "localhost:3")
    assert "localhost:3, which does not answer" in described.out
