"""`penstock cluster up`, as a developer runs it: one command, a cluster, Ctrl-C."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from peers import tools
from peers.penstock import SOURCE
from peers.ports import free_ports
from peers.process import WatchedProcess
from penstock.cli.main import main

PATIENCE_S = 120


def test_one_command_runs_a_cluster_until_it_is_interrupted(tmp_path: Path):
    tools.java()
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
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout_s=PATIENCE_S) == 0
    finally:
        process.kill()
    for number in (1, 2):
        assert "stopping" in (tmp_path / "data" / f"broker-{number}.log").read_text()


def test_a_port_that_is_taken_is_named(tmp_path: Path, bootstrap: str, capsys: pytest.CaptureFixture[str]):
    assert main(["cluster", "up", "--listen", bootstrap, "--data-dir", str(tmp_path)]) == 1
    assert f"somebody listens on {bootstrap} already" in capsys.readouterr().err
