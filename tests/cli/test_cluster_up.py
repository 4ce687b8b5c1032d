"""`penstock cluster up`, as a developer runs it: one command, a cluster, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from peers.penstock import SOURCE
from peers.ports import free_ports
from peers.process import WatchedProcess
from penstock.cli.main import main

PATIENCE_S = 120


def pids_in(output: str) -> dict[str, int]:
    """What `cluster up` said of its processes."""
    line = next(line for line in output.splitlines() if line.startswith("processes: "))
    named = (each.rpartition(" ") for each in line.removeprefix("processes: ").split(", "))
    return {name: int(pid) for name, _, pid in named}


@pytest.mark.needs("zookeeper")
def test_one_command_runs_a_cluster_until_it_is_interrupted(tmp_path: Path):
    listen = f"127.0.0.1:{free_ports(2)[0]}"
    command = [sys.executable, "-m", "penstock", "cluster", "up", "-n", "2", "--listen", listen]
    process = WatchedProcess(
        [*command, "--data-dir", str(tmp_path / "data")],
        environment={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        process.wait_for_line(re.compile("ready: -b ").search, timeout_s=PATIENCE_S)
        process.wait_for_line(re.compile("2 brokers, controller [12]").search, timeout_s=PATIENCE_S)
        assert sorted(AdminClient({"bootstrap.servers": listen}).list_topics(timeout=PATIENCE_S).brokers) == [
            1,
            2,
        ]
        pids = pids_in(process.output)
        assert list(pids) == ["ZooKeeper", "broker 1", "broker 2"]
        assert "serve" in psutil.Process(pids["broker 2"]).cmdline()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout_s=PATIENCE_S) == 0
        assert not any(psutil.pid_exists(pid) for pid in pids.values())
    finally:
        process.kill()
    for number in (1, 2):
        assert "stopping" in (tmp_path / "data" / f"broker-{number}.log").read_text()


@pytest.mark.needs("zookeeper")
def test_a_port_that_is_taken_is_named(tmp_path: Path, bootstrap: str, capsys: pytest.CaptureFixture[str]):
    assert main(["cluster", "up", "--listen", bootstrap, "--data-dir", str(tmp_path)]) == 1
    assert f"another program listens on {bootstrap} already" in capsys.readouterr().err


@pytest.mark.needs("zookeeper")
def test_all_processes_end_with_a_cluster_up_that_is_killed(tmp_path: Path):
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "penstock", "cluster", "up", "-n", "1", "--listen", listen]
    process = WatchedProcess(
        [*command, "--data-dir", str(tmp_path / "data")],
        environment={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        process.wait_for_line(re.compile("processes: ").search, timeout_s=PATIENCE_S)
        found = [psutil.Process(pid) for pid in pids_in(process.output).values()]
    finally:
        process.kill()
    _, alive = psutil.wait_procs(found, timeout=PATIENCE_S)
    assert not alive
    assert "stopped" in (tmp_path / "data" / "broker-1.log").read_text(), "and it was stopped, not killed"


def test_the_module_imports_nothing_of_spark():
    program = "import sys, penstock.cli.cluster_up; print([each for each in sys.modules if 'spark' in each])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
