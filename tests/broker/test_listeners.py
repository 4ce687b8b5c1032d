"""Listeners, advertised addresses, and the HTTP side: /metrics and /healthz."""

import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from peers.penstock import PenstockProcess
from penstock.base.errors import UserError
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.metadata import MetadataRequest
from tests.raw_client import RawClient, batch_of


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def told(address: str) -> tuple[str, int]:
    """Where Metadata, asked at `address`, says that the broker is."""
    with RawClient(address) as client:
        (broker,) = client.ask(MetadataRequest(topics=[]), 12).brokers
        (described,) = client.ask(DescribeClusterRequest(), 2).brokers
        assert (described.host, described.port) == (broker.host, broker.port)
        return broker.host, broker.port


def test_clients_of_each_listener_are_told_its_own_advertised_address(tmp_path):
    inside, outside = free_port(), free_port()
    settings = {
        "listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "advertised.listeners": "INSIDE://127.0.0.1:1234,OUTSIDE://broker.example.com:9999",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    arguments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    with serving(tmp_path, arguments):
        assert told(f"127.0.0.1:{inside}") == ("127.0.0.1", 1234)
        assert told(f"127.0.0.1:{outside}") == ("broker.example.com", 9999)


class serving(PenstockProcess):
    """A process whose listeners come from settings alone; port 0 would hide the ones it was given."""

    def __init__(self, data, arguments) -> None:
        super().__init__(data, arguments=arguments)

    def _command(self) -> list[str]:
        command = super()._command()
        position = command.index("--listen")
        return command[:position] + command[position + 2 :]


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(metrics_port: int) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"penstock.metrics.listen": f"127.0.0.1:{metrics_port}"}) as broker:
        yield broker


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def raw_http(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received


def test_a_broker_that_answers_is_healthy(broker: EmbeddedBroker, metrics_port: int):
    assert get(metrics_port, "/healthz") == (200, "ok\n")


def test_metrics_count_requests_bytes_connections_and_partitions(broker: EmbeddedBroker, metrics_port: int):
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("counted", partitions=3)
        client.produce("counted", batch_of(b"x"))
        status, text = get(metrics_port, "/metrics")
    assert status == 200
    values = dict(re.findall(r"^(\w+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE))
    assert float(values['penstock_request_seconds_count{api="produce"}']) == 1
    assert float(values["penstock_partitions"]) >= 3
    assert float(values["penstock_connections"]) >= 1
    assert float(values["penstock_sent_bytes_total"]) > 0
    assert any(name.startswith("penstock_loop_delay_seconds") for name in values)


def test_every_line_of_metrics_is_prometheus_text(broker: EmbeddedBroker, metrics_port: int):
    _, text = get(metrics_port, "/metrics")
    sample = re.compile(r'\w+(\{\w+="[^"\\\n]*"(,\w+="[^"\\\n]*")*\})? [0-9.e+-]+\Z')
    comment = re.compile(r"# (HELP|TYPE) \w+ .+\Z")
    assert text.endswith("\n")
    for line in text.splitlines():
        assert comment.match(line) or sample.match(line), line


def test_a_refused_connection_is_counted(broker: EmbeddedBroker, metrics_port: int):
    def refused() -> int:
        (count,) = re.findall(
            r"^penstock_refused_connections_total (\d+)$", get(metrics_port, "/metrics")[1], re.MULTILINE
        )
        return int(count)

    before = refused()
    with RawClient(broker.bootstrap_servers) as client:
        client.socket.sendall(b"\xff" * 4)
        assert client.is_closed_by_broker()
    assert refused() == before + 1


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /metrics?name[]=x HTTP/1.1\r\n\r\n", 200),
        (b"GET /" + b"x" * 10_000, 431),
    ],
)
def test_other_http_requests_are_answered_with_an_error(
    broker: EmbeddedBroker, metrics_port: int, request_: bytes, status: int
):
    assert raw_http(metrics_port, request_).startswith(f"HTTP/1.1 {status} ".encode())


def test_http_is_not_served_unless_asked_for():
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        client.socket.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert client.is_closed_by_broker()


def test_if_one_listener_cannot_bind_the_others_are_closed(metrics_port: int, broker: EmbeddedBroker):
    port = free_port()
    settings = {"penstock.metrics.listen": f"127.0.0.1:{metrics_port}"}
    with pytest.raises(UserError, match="another program listens there"):
        EmbeddedBroker(port=port, settings=settings).start()
    with EmbeddedBroker(port=port):
        pass
