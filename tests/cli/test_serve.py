"""`penstock serve`: settings, the ready line, and start-up errors as one line each."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from peers.penstock import SOURCE, PenstockProcess
from penstock.testing import EmbeddedBroker
from tests.apis.requests import BROKER, config
from tests.raw_client import RawClient

TIMEOUT_S = 30
FAILED = 1
USAGE = 2


def serve(
    *words: str, environment: Mapping[str, str] | None = None, python: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    """A broker that is not expected to get far."""
    return subprocess.run(
        [sys.executable, *python, "-m", "penstock", "serve", *words],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def complaint(result: "subprocess.CompletedProcess[str]", code: int = FAILED) -> str:
    """The one line on stderr."""
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("penstock: ")
    return lines[0]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_port_that_is_taken(tmp_path: Path, taken_port: int):
    line = complaint(serve("--listen", f"127.0.0.1:{taken_port}", "--data-dir", str(tmp_path)))
    assert f"127.0.0.1:{taken_port}" in line
    assert "--listen" in line


def test_a_metrics_port_that_is_taken(tmp_path: Path, taken_port: int):
    words = ["--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    line = complaint(serve(*words, "--set", f"penstock.metrics.listen=127.0.0.1:{taken_port}"))
    assert str(taken_port) in line


def test_an_address_that_is_not_of_this_machine(tmp_path: Path):
    line = complaint(serve("--listen", "203.0.113.1:9092", "--data-dir", str(tmp_path)))
    assert "203.0.113.1:9092" in line


def test_the_next_free_port_is_taken_where_that_is_wished(tmp_path: Path, taken_port: int):
    broker = PenstockProcess(tmp_path, listen=f"127.0.0.1:{taken_port}", arguments=["--or-next-port"])
    with broker:
        assert int(broker.bootstrap.rpartition(":")[2]) > taken_port
        assert f"port {taken_port} is taken" in broker.output
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")


def test_a_directory_that_another_broker_has(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path):
        line = complaint(serve("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)))
    assert "another broker" in line
    assert str(tmp_path) in line


def test_a_directory_that_cannot_be_written_to(tmp_path: Path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a directory")
    line = complaint(serve("--listen", "127.0.0.1:0", "--data-dir", str(in_the_way)))
    assert str(in_the_way) in line


def test_data_of_a_newer_version(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path):
        pass
    properties = tmp_path / "meta.properties"
    newer = re.sub(r"version=\d+", "version=99", properties.read_text())
    properties.write_text(newer)
    line = complaint(serve("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)))
    assert "99" in line
    assert properties.read_text() == newer, "nothing was touched"


def test_data_of_another_node(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path):
        pass
    line = complaint(serve("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), "--set", "node.id=7"))
    assert "node" in line


def test_an_unknown_setting_is_answered_with_the_nearest_one(tmp_path: Path):
    line = complaint(serve("--data-dir", str(tmp_path), "--set", "num.partition=3"))
    assert "num.partitions" in line
    file = tmp_path / "settings.toml"
    file.write_text('"log.retention.hour" = 3\n')
    line = complaint(serve("--data-dir", str(tmp_path), "--config", str(file)))
    assert "log.retention.hours" in line
    assert str(file) in line
    line = complaint(serve(environment={"PENSTOCK_NUM_PARTITION": "3"}))
    assert "PENSTOCK_NUM_PARTITIONS" in line


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "num.partitions=many"],
        ["--set", "num.partitions=0"],
        ["--set", "num.partitions"],
        ["--set", "log.dirs=/a,/b"],
        ["--set", "listeners=PLAINTEXT://0.0.0.0:9092"],
        ["--listen", "nonsense"],
        ["--listen", "127.0.0.1:99999"],
        ["--config", "/no/such/file.toml"],
    ],
    ids=" ".join,
)
def test_settings_that_make_no_sense(words: list[str]):
    complaint(serve(*words))


def test_a_file_that_is_not_toml(tmp_path: Path):
    file = tmp_path / "settings.toml"
    file.write_text("this is = not = toml")
    assert str(file) in complaint(serve("--config", str(file)))


def test_without_assertions_the_broker_refuses_to_run(tmp_path: Path):
    assert "-O" in complaint(serve("--data-dir", str(tmp_path / "new"), python=["-O"]))
    assert not (tmp_path / "new").exists()


def test_wrong_usage_has_a_code_of_its_own():
    result = serve("--no-such-option")
    assert result.returncode == USAGE
    assert "Traceback" not in result.stderr


def test_the_ready_line_names_address_node_cluster_data_and_time(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        lines = [line for line in broker.output.splitlines() if "ready" in line]
        assert len(lines) == 1
        assert re.fullmatch(
            rf"penstock \S+ ready on {re.escape(broker.bootstrap)} "
            rf"\(node 1, cluster \S{{22}}, data {re.escape(str(tmp_path))}, \d+ ms\)",
            lines[0],
        )


def test_the_cluster_id_stays_the_same(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        before = broker.cluster_id
        broker.restart()
        assert broker.cluster_id == before


def test_flags_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "settings.toml"
    file.write_text('"log.segment.bytes" = 2000000\n"log.retention.bytes" = 2000\n[num]\npartitions = 2\n')
    # The first of these three wins in the file, the second in the environment, the third in the flags.
    monkeypatch.setenv("PENSTOCK_LOG_SEGMENT_BYTES", "3000000")
    monkeypatch.setenv("PENSTOCK_LOG_RETENTION_BYTES", "3000")
    arguments = ["--config", str(file)]
    settings = {"log.retention.bytes": 4000}
    with (
        PenstockProcess(tmp_path / "data", arguments=arguments, settings=settings) as broker,
        RawClient(broker.bootstrap) as client,
    ):
        values = [
            config(client, BROKER, "1", name).value
            for name in ("num.partitions", "log.segment.bytes", "log.retention.bytes")
        ]
    assert values == ["2", "3000000", "4000"]


def test_what_lives_for_long_is_looked_at_by_the_collector_only_seldom():
    program = """
import gc
from penstock.cli.serve import calm_the_collector
calm_the_collector()
before = gc.get_stats()
partitions = [[] for _ in range(1_000_000)]
after = gc.get_stats()
print([now["collections"] - then["collections"] for then, now in zip(before, after)])
"""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )

    young, _, oldest = map(int, done.stdout.strip(" []\n").split(","))
    assert young > 0, "what is left behind by requests is found"
    assert oldest == 0, "and nobody waits for all the rest"
