"""Clean shutdown: requests in flight are answered, everything is synced, and the next start recognises it."""

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.penstock import PenstockProcess
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.messages.metadata import MetadataRequest
from tests.apis.requests import end_offset, values_in
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of, fetch_request, produce_request

LONG_MS = 600_000
CLEAN_MARK = ".kafka_cleanshutdown"


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(data_dir=tmp_path)
    broker.start()
    yield broker
    broker.stop()


def stop_in_background(broker: EmbeddedBroker) -> threading.Thread:
    thread = threading.Thread(target=broker.stop)
    thread.start()
    return thread


def test_a_long_poll_under_way_is_answered_and_does_not_hold_up_the_stop(stopping: EmbeddedBroker):
    with RawClient(stopping.bootstrap_servers) as client, RawClient(stopping.bootstrap_servers) as other:
        client.create_topic("t")
        client.send(fetch_request("t", 0, max_wait_ms=LONG_MS), 12)
        other.ask(MetadataRequest(topics=[]), 12)
        stopped = stop_in_background(stopping)
        answer = client.receive(1, 12, FetchResponse)
        assert answer.responses[0].partitions[0].error_code == 0
        assert client.is_closed_by_broker()
        stopped.join(timeout=5)  # far less than penstock.drain.timeout.ms
        assert not stopped.is_alive()


def test_a_produce_that_waits_for_its_sync_is_answered_before_the_stop():
    with ControlledBroker() as broker:
        with RawClient(broker.bootstrap_servers) as client:
            client.create_topic("t", flush_messages="1")
            broker.gate.hold("t-0/")
            client.send(produce_request("t", batch_of(b"x")), 12)
            broker.gate.wait_until_one_is_held()
            stopping = threading.Thread(target=lambda: broker.run(broker.broker.stop))
            stopping.start()
            broker.gate.release()
            assert client.receive_frame()
            assert client.is_closed_by_broker()
            stopping.join(timeout=20)
        broker.broker.stop = _nothing  # type: ignore[method-assign]


async def _nothing() -> None:
    """It has been stopped."""


def test_an_answer_the_client_is_still_reading_is_sent_to_its_end(stopping: EmbeddedBroker):
    with RawClient(stopping.bootstrap_servers) as client:
        client.create_topic("large", max_message_bytes="20000000")
        batch = batch_of(b"x" * 15_000_000)
        client.produce("large", batch)
        client.send(fetch_request("large", 0, max_bytes=1 << 30, partition_max_bytes=1 << 30), 12)
        assert client.socket.recv(1, socket.MSG_PEEK), "the answer has begun"
        stopped = stop_in_background(stopping)
        assert len(client.receive_frame()) > len(batch)
        assert client.is_closed_by_broker()
        stopped.join(timeout=20)


def test_a_client_that_never_reads_its_answer_is_cut_off_in_time(tmp_path: Path):
    settings = {"penstock.drain.timeout.ms": 50}
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("large", max_message_bytes="20000000")
        client.produce("large", batch_of(b"x" * 15_000_000))
        client.send(fetch_request("large", 0, max_bytes=1 << 30, partition_max_bytes=1 << 30), 12)
        assert client.socket.recv(1, socket.MSG_PEEK)
        broker.stop()  # returns
    assert (tmp_path / CLEAN_MARK).exists()


def test_new_connections_are_refused_after_the_stop(stopping: EmbeddedBroker):
    address = stopping.bootstrap_servers
    stopping.stop()
    with pytest.raises(ConnectionError):
        RawClient(address)


def test_a_clean_stop_leaves_its_mark_which_the_next_start_takes_away(tmp_path: Path):
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"x"))
        assert not (tmp_path / CLEAN_MARK).exists()
    assert (tmp_path / CLEAN_MARK).exists()
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert not (tmp_path / CLEAN_MARK).exists()
        assert values_in(client.fetch("t", 0).records) == [b"x"]


def test_after_a_clean_stop_the_logs_are_not_scanned(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        for _ in range(10):
            client.produce("t", batch_of(b"x" * 100))
    # A scan would find this, and cut; without one it is found when it is read.
    log = tmp_path / "t-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[100] ^= 0xFF
    log.write_bytes(content)
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert end_offset(client, "t") == 10
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    (tmp_path / CLEAN_MARK).unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    with EmbeddedBroker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        assert [record for record in caplog.records if "t-0" in record.getMessage()], "now it was scanned"


def test_sigterm_drains_and_ends_with_code_0(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            client.produce("t", batch_of(b"acknowledged"))
            client.send(fetch_request("t", 1, max_wait_ms=LONG_MS), 12)
            with RawClient(broker.bootstrap) as other:
                other.ask(MetadataRequest(topics=[]), 12)
            assert broker.stop(timeout_s=8) == 0
            assert client.receive(1, 12, FetchResponse).error_code == 0
        assert "Traceback" not in broker.output
        assert (tmp_path / CLEAN_MARK).exists()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            assert values_in(client.fetch("t", 0).records) == [b"acknowledged"]
