"""A broker whose request memory is used up: small requests continue, slow ones lose their memory, the limit holds."""

import logging
import struct
from collections.abc import Callable, Iterator

import pytest

from penstock.schema.codec import encode
from penstock.testing import EmbeddedBroker
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.produce import ProduceResponse
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of, fetch_request, produce_request

MIB = 1 << 20
LIMIT = 16 * MIB
SLOW_BYTES = 3 * MIB  # three of them are all that large requests may have


@pytest.fixture
def broker() -> Iterator[ControlledBroker]:
    with ControlledBroker(settings={"queued.max.request.bytes": LIMIT}) as broker:
        yield broker


def held(broker: ControlledBroker) -> int:
    async def look() -> int:
        assert broker.broker._connections is not None
        return broker.broker._connections._memory.held

    return broker.run(look)


def waiting(broker: ControlledBroker) -> int:
    async def look() -> int:
        assert broker.broker._connections is not None
        return broker.broker._connections._memory.waiting_count

    return broker.run(look)


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        pass


def arrived(broker: ControlledBroker, client: RawClient) -> int:
    """How much of its large request the broker has read from this client."""
    port = client.socket.getsockname()[1]

    async def look() -> int:
        assert broker.broker._connections is not None
        opened = broker.broker._connections._open
        return sum(each.channel.memory.arrived for each in opened if each.client.port == port)

    return broker.run(look)


def slow(broker: ControlledBroker) -> RawClient:
    """A client that has sent nearly all of a large request, and stops; the broker has read all that was sent."""
    client = RawClient(broker.bootstrap_servers)
    client.socket.sendall(struct.pack(">i", SLOW_BYTES) + bytes(SLOW_BYTES - 100_000))
    until(lambda: arrived(broker, client) == SLOW_BYTES - 100_000)
    return client


def judge(broker: ControlledBroker, *, after_ms: int) -> None:
    """Some time passes, and progress is looked at twice."""

    async def look() -> None:
        assert broker.broker._connections is not None
        broker.broker._connections._judge_progress()
        broker.advance(after_ms)
        broker.broker._connections._judge_progress()

    broker.run(look)


def test_small_requests_are_answered_while_large_ones_use_all_their_memory(broker: ControlledBroker):
    slow_ones = [slow(broker) for _ in range(3)]
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        for _ in range(50):
            assert client.produce("t", batch_of(b"x" * 500_000)).error_code == 0
            assert client.ask(MetadataRequest(topics=[]), 12).brokers
    for one in slow_ones:
        one.socket.close()


def test_a_large_request_gets_the_memory_of_one_that_makes_no_progress(
    broker: ControlledBroker, caplog: pytest.LogCaptureFixture
):
    slow_ones = [slow(broker) for _ in range(3)]
    judge(broker, after_ms=1_500)
    assert held(broker) >= 3 * SLOW_BYTES, "as long as no request waits, none is ended"
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        # While it waits, the broker looks at progress by itself, four times a second.
        client.send(produce_request("t", batch_of(b"x" * 900_000, b"x" * 900_000, b"x" * 900_000)), 12)
        client.receive(0, 12, ProduceResponse)
    for one in slow_ones:
        assert one.is_closed_by_broker()
        host, port = one.socket.getsockname()
        (line,) = (r.getMessage() for r in caplog.records if f"{host}:{port}" in r.getMessage())
        assert f"{SLOW_BYTES - 100_000} of {SLOW_BYTES} bytes of a request have arrived" in line
        assert "queued.max.request.bytes" in line
        one.socket.close()
    until(lambda: held(broker) == 0)
    assert "penstock_requests_without_progress_total 3" in broker.broker.services.node.metrics.render()


def held_back(broker: ControlledBroker) -> int:
    """How many connections hold a whole request that may not start."""

    async def look() -> int:
        assert broker.broker._connections is not None
        return sum(each.channel.memory.holds_back for each in broker.broker._connections._open)

    return broker.run(look)


def test_large_requests_behind_long_polls_of_their_own_lose_their_memory_to_others(broker: ControlledBroker):
    large = produce_request("t", batch_of(b"x" * 3_000_000))
    polls = [RawClient(broker.bootstrap_servers) for _ in range(3)]
    polls[0].create_topic("t")
    for client in polls:
        client.send(fetch_request("t", 0, max_wait_ms=600_000), 12)
        client.send(large, 12)
    until(lambda: held_back(broker) == 3)
    with RawClient(broker.bootstrap_servers) as client:
        frame = b"".join(frame_request(RequestHeader(0, 12, 1, "raw"), encode(large, 12)))
        # The rest would have to wait for memory, too: more than a socket may take.
        client.socket.sendall(frame[:100_000])
        until(lambda: waiting(broker) == 1)
        judge(broker, after_ms=1_500)
        assert held_back(broker) == 3, "they have ten seconds"
        judge(broker, after_ms=11_000)
        assert all(each.is_closed_by_broker() for each in polls)
        client.socket.sendall(frame[100_000:])
        client.receive(0, 12, ProduceResponse)
    for each in polls:
        each.socket.close()


def test_no_more_is_held_than_the_limit_however_much_is_sent(broker: ControlledBroker):
    clients = [RawClient(broker.bootstrap_servers) for _ in range(40)]
    for client in clients:
        client.socket.setblocking(False)
    body = struct.pack(">i", SLOW_BYTES) + bytes(SLOW_BYTES - 1)
    sent = dict.fromkeys(clients, 0)
    most, stalled = 0, 0
    while stalled < 20:
        progressed = False
        for client in clients:
            try:
                count = client.socket.send(body[sent[client] : sent[client] + 100_000])
            except BlockingIOError:
                continue
            sent[client] += count
            progressed = progressed or count > 0
        most = max(most, held(broker))
        stalled = 0 if progressed else stalled + 1
    assert 3 * SLOW_BYTES <= most <= LIMIT
    with RawClient(broker.bootstrap_servers) as other:
        assert other.ask(MetadataRequest(topics=[]), 12).brokers
    for client in clients:
        client.socket.close()
    until(lambda: held(broker) == 0)


def test_a_request_that_could_never_have_its_memory_is_refused_at_its_length(
    caplog: pytest.LogCaptureFixture,
):
    settings = {"queued.max.request.bytes": MIB}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.socket.sendall(struct.pack(">i", MIB))
        assert client.is_closed_by_broker()
    assert any(
        "at most" in record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    )
