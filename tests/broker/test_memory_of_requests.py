"""Requests of a broker whose memory is used up: small ones go on, slow ones lose what they have, the limit holds."""

import logging
import struct
from collections.abc import Callable, Iterator

import pytest

from penstock.testing import EmbeddedBroker
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


def slow(broker: ControlledBroker) -> RawClient:
    """Somebody who has sent nearly all of a large request, and stops."""
    client = RawClient(broker.bootstrap_servers)
    before = held(broker)
    client.socket.sendall(struct.pack(">i", SLOW_BYTES) + bytes(SLOW_BYTES - 100_000))
    until(lambda: held(broker) - before >= SLOW_BYTES)
    return client


def judge(broker: ControlledBroker) -> None:
    """Some time passes, and progress is looked at twice."""

    async def look() -> None:
        assert broker.broker._connections is not None
        broker.broker._connections._judge_progress()
        broker.advance(1_500)
        broker.broker._connections._judge_progress()

    broker.run(look)


def test_small_requests_are_answered_while_large_ones_have_all_they_may_have(broker: ControlledBroker):
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
    judge(broker)
    assert held(broker) >= 3 * SLOW_BYTES, "as long as no request waits, none is ended"
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        client.send(produce_request("t", batch_of(b"x" * 900_000, b"x" * 900_000, b"x" * 900_000)), 12)
        until(lambda: waiting(broker) == 1)
        judge(broker)
        client.receive(0, 12, ProduceResponse)
    for one in slow_ones:
        assert one.is_closed_by_broker()
        host, port = one.socket.getsockname()
        (line,) = (r.getMessage() for r in caplog.records if f"{host}:{port}" in r.getMessage())
        assert f"of a request of {SLOW_BYTES} bytes {SLOW_BYTES - 100_000} have come" in line
        assert "queued.max.request.bytes" in line
        one.socket.close()
    until(lambda: held(broker) == 0)
    assert "penstock_requests_without_progress_total 3" in broker.broker.services.node.metrics.render()


def test_a_large_request_behind_a_long_poll_of_its_own_loses_its_memory_to_others(broker: ControlledBroker):
    polls = RawClient(broker.bootstrap_servers)
    polls.create_topic("t")
    polls.send(fetch_request("t", 0, max_wait_ms=600_000), 12)
    large = produce_request("t", batch_of(b"x" * 3_000_000))
    others = [slow(broker) for _ in range(2)]
    polls.send(large, 12)
    until(lambda: held(broker) >= 3 * SLOW_BYTES - 500_000)
    with RawClient(broker.bootstrap_servers) as client:
        client.send(produce_request("t", batch_of(b"x" * 3_000_000)), 12)
        until(lambda: waiting(broker) == 1)

        async def pass_time() -> None:
            assert broker.broker._connections is not None
            broker.broker._connections._judge_progress()
            broker.advance(11_000)
            broker.broker._connections._judge_progress()

        broker.run(pass_time)
        assert polls.is_closed_by_broker()
        client.receive(0, 12, ProduceResponse)
    for one in (*others, polls):
        one.socket.close()


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
