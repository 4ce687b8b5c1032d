"""`make`, and `.ci/run` that calls it."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from peers.process import WatchedProcess
from tests.project.tiny_project import ROOT, programs


def dry_run(target: str) -> str:
    # As typed by hand, also when this suite itself is run by make.
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["make", "-n", target],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def run_ci(folder: Path, make: str) -> subprocess.CompletedProcess[str]:
    """.ci/run with a `make` that is this shell script."""
    path = programs(folder / "bin", make=make)
    (folder / "bin" / "bash").symlink_to(str(shutil.which("bash")))
    (folder / "bin" / "env").symlink_to(str(shutil.which("env")))
    return subprocess.run(
        [str(ROOT / ".ci" / "run")],
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_make_run_says_what_it_downloads_and_sets_up_the_core_before_it_tells_the_story() -> None:
    sizes, set_up, *story = dry_run("run").splitlines()

    assert sizes == "sh scripts/setup.sh sizes"
    assert set_up == "sh scripts/setup.sh run"
    assert '-m app_logs.story --setup "sh scripts/setup.sh" --listen 127.0.0.1:9092' in story[0]
    assert "--duration" not in " ".join(story), "until Ctrl-C"


def test_make_broker_sets_up_the_core_and_serves_on_9092_or_the_next_free_port() -> None:
    set_up, serve = dry_run("broker").splitlines()

    assert set_up == "sh scripts/setup.sh run"
    assert "penstock serve --listen 127.0.0.1:9092 --or-next-port --data-dir data" in serve


def test_make_test_checks_format_lint_types_and_layers_before_the_suite() -> None:
    set_up, *checks, tools, suite, compiled = dry_run("test").splitlines()[:8]

    assert set_up == "sh scripts/setup.sh dev"
    assert [check.split("/")[-1] for check in checks] == [
        "ruff format --check .",
        "ruff check .",
        "mypy",
        "lint-imports",
    ]
    assert tools == "sh scripts/tools.sh at-hand"
    assert "-m pytest" in suite
    assert compiled.endswith("test-compiled")


def test_the_pure_and_broker_parts_of_the_suite_run_again_with_the_hot_path_compiled() -> None:
    set_up, compiling, suite = dry_run("test-compiled").splitlines()
    folders = [word for word in suite.split() if word.startswith("tests/")]

    assert (set_up, compiling) == ("sh scripts/setup.sh dev", "sh scripts/compile.sh")
    assert f"PYTHONPATH={ROOT}/build/compiled" in suite
    assert {"tests/core", "tests/records", "tests/wire", "tests/storage", "tests/broker"} <= set(folders)
    assert [folder for folder in folders if not (ROOT / folder).exists()] == []


def test_make_check_runs_the_linters_and_tests_that_exist_and_need_no_tools() -> None:
    set_up, *checks, suite = dry_run("check").splitlines()
    folders = [word for word in suite.split() if word.startswith("tests/")]

    assert set_up == "sh scripts/setup.sh dev"
    assert checks == dry_run("lint").splitlines()[1:]
    assert {"tests/core", "tests/records", "tests/apis"} <= set(folders)
    assert [folder for folder in folders if not (ROOT / folder).exists()] == []
    assert not {"tests/foreign", "tests/cluster", "tests/spark", "tests/sim"} & set(folders)


def test_make_chaos_sets_up_the_environment_and_runs_for_minutes() -> None:
    set_up, chaos = dry_run("chaos").splitlines()

    assert set_up == "sh scripts/setup.sh dev"
    assert chaos.endswith("-m tests.chaos")


def test_ci_gets_the_tools_first_and_tells_the_suite_where_it_runs(tmp_path: Path) -> None:
    done = run_ci(tmp_path, 'echo "make $* CI=$CI"')

    assert (done.returncode, done.stdout) == (0, "make tools CI=true\nmake test CI=true\n")


def test_ci_fails_when_the_suite_fails_and_shows_its_closing_line(tmp_path: Path) -> None:
    done = run_ci(tmp_path, '[ "$1" = tools ] || { echo "== 1 failed, 8 passed in 2.10s =="; exit 2; }')

    assert done.returncode != 0
    assert done.stdout.endswith("== 1 failed, 8 passed in 2.10s ==\n")


def test_ci_stops_when_a_tool_cannot_be_had(tmp_path: Path) -> None:
    done = run_ci(tmp_path, 'echo "make $*"; exit 1')

    assert (done.returncode, done.stdout) == (1, "make tools\n")


def made_by_make() -> bool:
    """Whether `make broker` would find its environment ready; else it would set one up in the midst of this suite."""
    lock = (ROOT / "requirements" / "dev.lock").read_text() + (ROOT / "pyproject.toml").read_text()
    stamp = Path(sys.prefix) / ".penstock-dev"
    return stamp.exists() and stamp.read_text() == f"{ROOT}\n{lock}"


def test_make_broker_takes_the_next_free_port_and_says_so(tmp_path: Path) -> None:
    if not made_by_make():
        pytest.skip("this environment was not made by `make`")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = [f"LISTEN=127.0.0.1:{port}", f"DATA={tmp_path / 'data'}", f"VENV={sys.prefix}"]
        broker = WatchedProcess(["make", "-C", str(ROOT), "broker", *settings])
        try:
            ready = broker.wait_for_line(lambda line: "ready on" in line, timeout_s=60)
        finally:
            broker.stop()
    assert f"127.0.0.1:{port} " not in ready
    assert str(port) in broker.output.replace(ready, ""), "it says which port was taken"
