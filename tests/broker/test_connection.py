"""One connection: the order of responses, invalid requests, and limits of memory."""

import logging
import socket
import struct
from collections.abc import Iterator

import psutil
import pytest

from penstock.schema.codec import encode
from penstock.testing import EmbeddedBroker
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.metadata import MetadataRequest
from tests.apis.requests import end_offset, values_in
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of, fetch_request, produce_request

LONG_MS = 60_000
MIB = 1 << 20


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def bystander(broker: EmbeddedBroker) -> Iterator[RawClient]:
    """A client that must be served before and after the test."""
    with RawClient(broker.bootstrap_servers) as client:
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
        yield client
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


def correlation_ids(client: RawClient, count: int) -> list[int]:
    return [int.from_bytes(client.receive_frame()[:4], "big") for _ in range(count)]


# Order.


def test_pipelined_requests_of_all_kinds_are_answered_in_order(client: RawClient):
    client.create_topic("ordered")
    sent = []
    for number in range(100):
        sent.append(client.send(produce_request("ordered", batch_of(b"%d" % number)), 12))
        sent.append(client.send(fetch_request("ordered", 0), 12))
        sent.append(client.send(MetadataRequest(topics=[]), 12))
    assert correlation_ids(client, len(sent)) == sent


def test_requests_in_one_piece_and_byte_by_byte_are_the_same(client: RawClient):
    request = b"".join(
        frame_request(RequestHeader(3, 1, 7, "raw"), [struct.pack(">i", 0)])  # Metadata of no topics
    )
    client.socket.sendall(request * 3)
    assert correlation_ids(client, 3) == [7, 7, 7]
    for byte in request:
        client.socket.sendall(bytes([byte]))
    assert correlation_ids(client, 1) == [7]


def test_a_produce_behind_a_long_poll_waits_its_turn_on_the_same_connection(
    client: RawClient, bystander: RawClient
):
    client.create_topic("turns")
    fetch = client.send(fetch_request("turns", 0, max_wait_ms=LONG_MS), 12)
    produce = client.send(produce_request("turns", batch_of(b"x")), 12)
    bystander.produce("turns", batch_of(b"wakes the long poll"))
    assert correlation_ids(client, 2) == [fetch, produce]


# What garbage costs.

GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "zeros": bytes(64),
    "a length of 2 GB": struct.pack(">i", 2**31 - 1) + b"rest",
    "a negative length": struct.pack(">i", -1),
    "an unknown api": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a negative api": struct.pack(">ihhih", 10, -1, 0, 1, -1),
    "a header that ends early": struct.pack(">ih", 2, 3),
    "an empty frame": struct.pack(">i", 0),
    "a negative array": b"".join(frame_request(RequestHeader(3, 0, 1, "x"), [struct.pack(">i", -5)])),
    "an array of 2 billion": b"".join(
        frame_request(RequestHeader(3, 1, 1, "x"), [struct.pack(">i", 2**31 - 1)])
    ),
    "a string longer than its frame": b"".join(
        frame_request(RequestHeader(3, 1, 1, "x"), [struct.pack(">ih", 1, 30_000)])
    ),
    "bytes that are no text": b"".join(
        frame_request(RequestHeader(3, 1, 1, "x"), [struct.pack(">ih", 1, 2) + b"\xff\xfe"])
    ),
    "a varint without end": b"".join(
        frame_request(RequestHeader(3, 12, 1, "x"), [b"\xff\xff\xff\xff\xff\xff\xff"])
    ),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_closes_its_connection_with_exactly_one_log_line(
    client: RawClient, bystander: RawClient, caplog: pytest.LogCaptureFixture, name: str
):
    host, port = client.socket.getsockname()
    client.socket.sendall(GARBAGE[name])
    assert client.is_closed_by_broker()
    lines = [record for record in caplog.records if f"{host}:{port}" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].levelno == logging.WARNING
    assert lines[0].exc_info is None


def test_an_incomplete_frame_delays_no_other_client_and_frees_its_memory(
    broker: EmbeddedBroker, bystander: RawClient, caplog: pytest.LogCaptureFixture
):
    with RawClient(broker.bootstrap_servers) as half:
        half.socket.sendall(struct.pack(">i", 1000) + b"only this")
        assert bystander.ask(MetadataRequest(topics=[]), 12).brokers
    assert bystander.ask(MetadataRequest(topics=[]), 12).brokers
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


def test_requests_before_the_garbage_are_answered(client: RawClient):
    sent = client.send(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3)
    assert correlation_ids(client, 1) == [sent]
    client.socket.sendall(GARBAGE["zeros"])
    assert client.is_closed_by_broker()


def test_memory_for_an_invalid_length_is_never_allocated(broker: EmbeddedBroker, bystander: RawClient):
    process = psutil.Process()
    before = process.memory_info().rss
    clients = [RawClient(broker.bootstrap_servers) for _ in range(20)]
    for client in clients:
        # As large as a request may be, of which next to nothing comes; and arrays that would fill it.
        client.socket.sendall(struct.pack(">i", 100 * MIB) + bytes(1000))
    for name in ("an array of 2 billion", "a length of 2 GB"):
        with RawClient(broker.bootstrap_servers) as client:
            client.socket.sendall(GARBAGE[name])
            assert client.is_closed_by_broker()
    assert process.memory_info().rss - before < 50 * MIB
    for client in clients:
        client.socket.close()


def test_a_request_larger_than_the_limit_is_refused_at_its_length():
    settings = {"socket.request.max.bytes": 1000}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.socket.sendall(struct.pack(">i", 1001))
        assert client.is_closed_by_broker()


# Where memory ends.


def fill(client: RawClient, request: bytes) -> int:
    """Send until the broker stops reading for a while; how many bytes it took."""
    client.socket.settimeout(0.3)
    sent = 0
    try:
        while sent < 100 * MIB:
            sent += client.socket.send(request)
    except TimeoutError:
        pass
    finally:
        client.socket.settimeout(20)
    return sent


def test_a_client_with_too_many_requests_in_flight_is_no_longer_read():
    settings = {"penstock.connection.inflight.requests.max": 3}
    with (
        EmbeddedBroker(settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
        RawClient(broker.bootstrap_servers) as bystander,
    ):
        client.create_topic("t")
        client.send(fetch_request("t", 0, max_wait_ms=LONG_MS), 12)
        request = b"".join(frame_request(RequestHeader(3, 1, 7, "x" * 30_000), [struct.pack(">i", 0)]))
        before = psutil.Process().memory_info().rss
        assert fill(client, request) < 50 * MIB
        assert psutil.Process().memory_info().rss - before < 30 * MIB
        assert bystander.produce("t", batch_of(b"wake")).base_offset == 0
        assert b"wake" in client.receive_frame()


def test_a_client_that_reads_no_responses_is_no_longer_read(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as client, RawClient(broker.bootstrap_servers) as bystander:
        bystander.create_topic("large")
        for _ in range(8):
            bystander.produce("large", batch_of(b"x" * 500_000))
        before = psutil.Process().memory_info().rss
        asked = 200
        request = fetch_request("large", 0, max_bytes=10 * MIB, partition_max_bytes=10 * MIB)
        for _ in range(asked):
            client.send(request, 12)  # 1 MB each, as penstock.fetch.answer.bytes says
        assert bystander.ask(MetadataRequest(topics=[]), 12).brokers
        assert psutil.Process().memory_info().rss - before < 100 * MIB
        # Once it reads, it gets every answer.
        assert all(len(client.receive_frame()) > 2 * 500_000 for _ in range(asked))


def reads_nothing(broker: ControlledBroker, client: RawClient) -> bool:
    """Whether the broker holds responses that this client does not read."""
    port = client.socket.getsockname()[1]

    async def look() -> bool:
        assert broker.broker._connections is not None
        return any(each.client.port == port for each in broker.broker._connections._unsent)

    return broker.run(look)


def test_unsent_responses_of_all_clients_are_limited_and_the_longest_idle_are_closed_first(
    caplog: pytest.LogCaptureFixture,
):
    settings = {"penstock.unsent.bytes.max": 4 * MIB, "penstock.connection.unsent.bytes.max": 1 * MIB}
    with ControlledBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as bystander:
        bystander.create_topic("large")
        for _ in range(8):
            bystander.produce("large", batch_of(b"x" * 500_000))
        request = fetch_request("large", 0, max_bytes=10 * MIB, partition_max_bytes=10 * MIB)
        clients = [RawClient(broker.bootstrap_servers) for _ in range(8)]
        for client in clients:
            for _ in range(30):
                client.send(request, 12)
            # The broker serves connections in turn: without this, a later client could be the first to be congested.
            while not reads_nothing(broker, client):
                pass
            assert bystander.ask(MetadataRequest(topics=[]), 12).brokers
        lines = [record.getMessage() for record in caplog.records]
        closed = [line for line in lines if "penstock.unsent.bytes.max" in line]
        assert 0 < len(closed) < len(clients)
        for client, line in zip(clients, closed, strict=False):
            assert f":{client.socket.getsockname()[1]} " in line
        assert all(len(clients[-1].receive_frame()) > 2 * 500_000 for _ in range(30)), "the last one stays"
        for client in clients:
            client.socket.close()


def test_connections_beyond_the_limit_are_closed_at_once(caplog: pytest.LogCaptureFixture):
    with EmbeddedBroker(settings={"max.connections": 2}) as broker:
        inside = [RawClient(broker.bootstrap_servers) for _ in range(2)]
        for client in inside:
            assert client.ask(MetadataRequest(topics=[]), 12).brokers
        with RawClient(broker.bootstrap_servers) as outside:
            assert outside.is_closed_by_broker()
        assert sum("max.connections=2" in record.getMessage() for record in caplog.records) == 1
        inside[0].socket.close()
        assert inside[1].ask(MetadataRequest(topics=[]), 12).brokers
        _until_admitted(broker).socket.close()
        inside[1].socket.close()


def _until_admitted(broker: EmbeddedBroker) -> RawClient:
    """Connects until the broker has noticed that a client left."""
    while True:
        client = RawClient(broker.bootstrap_servers)
        try:
            assert client.ask(MetadataRequest(topics=[]), 12).brokers
            return client
        except ConnectionError:
            client.socket.close()


def test_connections_from_one_address_have_a_limit_of_their_own():
    with EmbeddedBroker(settings={"max.connections.per.ip": 1}) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with RawClient(broker.bootstrap_servers) as inside:
            assert inside.ask(MetadataRequest(topics=[]), 12).brokers
            with RawClient(broker.bootstrap_servers) as outside:
                assert outside.is_closed_by_broker()
            other = socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0), timeout=20)
            with other:
                other.sendall(b"".join(frame_request(RequestHeader(3, 1, 9, "x"), [struct.pack(">i", 0)])))
                assert other.recv(4)


def test_thousands_of_short_connections_leak_nothing(broker: EmbeddedBroker):
    process = psutil.Process()
    before = process.num_fds()
    for _ in range(500):
        with RawClient(broker.bootstrap_servers) as client:
            client.socket.sendall(b"\0\0")
    with RawClient(broker.bootstrap_servers) as client:
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
    while process.num_fds() > before + 10:
        with RawClient(broker.bootstrap_servers) as client:
            assert client.ask(MetadataRequest(topics=[]), 12).brokers


def test_a_client_that_dies_in_the_middle_of_its_produce_leaves_no_half_batch(
    broker: EmbeddedBroker, client: RawClient
):
    client.create_topic("halves")
    body = encode(produce_request("halves", batch_of(b"x" * 1000)), 12)
    whole = b"".join(frame_request(RequestHeader(0, 12, 1, "raw"), body))
    for length in (10, len(whole) // 2, len(whole) - 1):
        with RawClient(broker.bootstrap_servers) as dying:
            dying.socket.sendall(whole[:length])
    assert end_offset(client, "halves") == 0
    client.produce("halves", batch_of(b"whole"))
    assert values_in(client.fetch("halves", 0).records) == [b"whole"]
