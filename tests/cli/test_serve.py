"""`penstock serve`: settings, the ready line, and start-up errors as one line each."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from peers.penstock import SOURCE, PenstockProcess
from penstock.testing import EmbeddedBroker
from tests.apis.requests import BROKER, config
from tests.raw_client import RawClient, batch_of, fetch_request

TIMEOUT_S = 30
FAILED = 1
USAGE = 2
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


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


def test_data_that_have_lost_their_metadata(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("orders")
    shutil.rmtree(tmp_path / "__metadata")
    line = complaint(serve("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)))
    assert "has partitions (orders-0), and no metadata" in line
    assert "put __metadata back from a backup" in line
    assert (tmp_path / "orders-0").is_dir()


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


SERVER_PROPERTIES = """\
############################# Server Basics #############################
broker.id=0
listeners=PLAINTEXT://:9092
num.network.threads=3
log.dirs=/tmp/kafka-logs
"""


@pytest.mark.parametrize("name", ["server.properties", "broker.conf"])
def test_a_server_properties_of_kafka_is_called_by_its_name(tmp_path: Path, name: str):
    file = tmp_path / name
    file.write_text(SERVER_PROPERTIES)
    line = complaint(serve("--config", str(file)))
    assert f"{file} is a file of Java properties" in line
    assert "Apache Kafka's server.properties" in line
    assert 'write `listeners = "PLAINTEXT://:9092"` for instance' in line


def test_toml_with_a_mistake_is_no_file_of_properties(tmp_path: Path):
    file = tmp_path / "settings.toml"
    file.write_text("log.retention.hours = 24h\n")
    assert "is not valid TOML" in complaint(serve("--config", str(file)))


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "listeners=SSL://127.0.0.1:9093"],
        ["--set", "listeners=SASL_SSL://127.0.0.1:9093"],
        [
            *("--set", "listeners=OUTSIDE://127.0.0.1:9093"),
            *("--set", "listener.security.protocol.map=OUTSIDE:SSL"),
        ],
    ],
    ids=["SSL", "SASL_SSL", "by the map"],
)
def test_a_listener_with_tls_or_sasl_is_not_supported_yet(tmp_path: Path, words: list[str]):
    line = complaint(serve("--data-dir", str(tmp_path / "new"), *words))
    assert "is not supported yet" in line
    assert "PLAINTEXT only" in line
    assert not (tmp_path / "new").exists()


def test_nothing_is_made_where_the_broker_cannot_listen(tmp_path: Path, taken_port: int):
    new = tmp_path / "new"
    words = ["--data-dir", str(new), "--listen"]
    complaint(serve(*words, f"127.0.0.1:{taken_port}"))
    complaint(serve(*words, "203.0.113.1:9092"))
    metrics = f"penstock.metrics.listen=127.0.0.1:{taken_port}"
    line = complaint(serve(*words, "127.0.0.1:0", "--set", metrics))
    assert "with penstock.metrics.listen" in line
    assert not new.exists()


# For root, which may do everything else, this is taken away.
WITHOUT_THE_RIGHT = ["setpriv", "--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service"]


def test_a_port_that_wants_a_right_is_answered_with_that(tmp_path: Path):
    prefix = [] if os.geteuid() else WITHOUT_THE_RIGHT
    if prefix and shutil.which(prefix[0]) is None:
        pytest.skip("root without setpriv cannot be kept from port 80")
    listening = "import socket; socket.create_server(('127.0.0.1', 80))"
    if (
        subprocess.run(
            [*prefix, sys.executable, "-c", listening], capture_output=True, check=False
        ).returncode
        == 0
    ):
        pytest.skip("anybody may listen on port 80 here")
    new = tmp_path / "new"
    done = subprocess.run(
        [
            *prefix,
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--listen",
            "127.0.0.1:80",
            "--data-dir",
            str(new),
        ],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    line = complaint(done)
    assert "ports below 1024 need the right to (CAP_NET_BIND_SERVICE on Linux)" in line
    assert "choose another port with --listen" in line
    assert not new.exists()


def test_without_kazoo_nothing_is_made_either(tmp_path: Path):
    new = tmp_path / "new"
    (tmp_path / "kazoo.py").write_text("raise ModuleNotFoundError('no kazoo', name='kazoo')\n")
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    words = ["--zookeeper", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--data-dir", str(new)]
    line = complaint(serve(*words, environment={"PYTHONPATH": path}))
    assert 'pip install "penstock-mq[cluster]"' in line
    assert not new.exists()


def test_variables_of_other_commands_do_not_stop_a_broker(tmp_path: Path):
    environment = {"PENSTOCK_COMMAND_CONFIG": "/etc/client.properties", "PENSTOCK_BOOTSTRAP_SERVERS": "a:1"}
    assert "no/such/file" in complaint(serve("--config", "/no/such/file.toml", environment=environment))


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
            rf"{TIME} INFO penstock.serve: penstock \S+ ready on {re.escape(broker.bootstrap)} "
            rf"\(node 1, cluster \S{{22}}, data {re.escape(str(tmp_path))}, \d+ ms\)",
            lines[0],
        )


def test_every_line_has_the_time_and_the_stop_is_announced(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        assert broker.stop() == 0
        lines = broker.output.splitlines()
    assert all(re.match(TIME, line) for line in lines), lines
    assert [line.partition("penstock.serve: ")[2] for line in lines][-2:] == [
        "stopping; a second signal ends at once",
        "stopped",
    ]


def test_a_metrics_port_chosen_by_the_system_is_logged(tmp_path: Path):
    with PenstockProcess(tmp_path, settings={"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        line = broker.wait_for_line("metrics are on")
        found = re.search(r"metrics are on (http://127\.0\.0\.1:\d+/metrics)", line)
        assert found is not None
        with urllib.request.urlopen(found[1], timeout=TIMEOUT_S) as answer:
            assert b"penstock_topics" in answer.read()


def test_json_lines_have_time_level_logger_and_message(tmp_path: Path):
    with PenstockProcess(tmp_path, arguments=["--log-format", "json", "--verbose"]) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
        assert broker.stop() == 0
        lines = [json.loads(line) for line in broker.output.splitlines()]
    for line in lines:
        assert list(line) == ["time", "level", "logger", "message"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    announced = [line["message"] for line in lines if line["logger"] == "penstock.serve"]
    assert "ready on" in announced[0]
    assert announced[1:] == ["stopping; a second signal ends at once", "stopped"]


def test_with_the_json_log_format_a_failed_start_is_logged_as_json(tmp_path: Path, taken_port: int):
    words = ["--listen", f"127.0.0.1:{taken_port}", "--data-dir", str(tmp_path), "--log-format", "json"]
    done = serve(*words)
    assert done.returncode == FAILED
    (line,) = (done.stdout + done.stderr).splitlines()
    assert json.loads(line)["level"] == "CRITICAL"
    assert str(taken_port) in json.loads(line)["message"]


def test_verbose_tells_of_connections_and_refused_requests(tmp_path: Path):
    with PenstockProcess(tmp_path, arguments=["--verbose"]) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            with pytest.raises(AssertionError):
                client.create_topic("t")
        broker.wait_for_line(r"DEBUG penstock\S*: connection from 127\.0\.0\.1:\d+ accepted on PLAINTEXT")
        broker.wait_for_line(
            r"DEBUG penstock.requests: create_topics v\d+ of 127\.0\.0\.1:\d+ .* TOPIC_ALREADY_EXISTS"
        )
        broker.wait_for_line(r"connection from 127\.0\.0\.1:\d+ closed")
        assert "DEBUG asyncio" not in broker.output


def test_a_second_signal_is_the_last(tmp_path: Path):
    settings = {"penstock.drain.timeout.ms": 600_000}
    with PenstockProcess(tmp_path, settings=settings) as broker, RawClient(broker.bootstrap) as client:
        client.create_topic("large", max_message_bytes="20000000")
        client.produce("large", batch_of(b"x" * 15_000_000))
        client.send(fetch_request("large", 0, max_bytes=1 << 30, partition_max_bytes=1 << 30), 12)
        assert client.socket.recv(1, socket.MSG_PEEK), "the answer has begun, and its rest is waited for"
        os.kill(broker.pid, signal.SIGTERM)
        broker.wait_for_line("stopping")
        os.kill(broker.pid, signal.SIGINT)
        assert broker.wait(timeout_s=TIMEOUT_S) == 128 + signal.SIGINT
        assert "a second SIGINT: ending at once" in broker.output


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


def test_the_garbage_collector_seldom_scans_long_lived_objects():
    program = """
import gc
from penstock.cli.serve import tune_garbage_collector
tune_garbage_collector()
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
    assert young > 0, "garbage of requests is collected"
    assert oldest == 0, "long-lived objects are not scanned"
