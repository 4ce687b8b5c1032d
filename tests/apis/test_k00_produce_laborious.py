"""Batches whose records are validated one by one: off the event loop, and still appended in order."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from penstock.services import topic_rules
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.produce import ProduceResponse
from tests.apis.requests import TOPIC, alter, delete_topic
from tests.raw_client import RawClient, batch_of, produce_request

PATIENCE_S = 20


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def keyed(count: int, *, codec: Codec = Codec.NONE, key: bytes | None = b"k") -> bytes:
    return build_batch([Record(i, 1000, key, b"v" * 50, ()) for i in range(count)], codec=codec)


class Gate:
    """Stands in for a look at records: says that it was entered, and waits to be opened."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.threads: list[str] = []
        self._real = real

    def __call__(self, *arguments: object) -> Any:
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        assert self.opened.wait(PATIENCE_S)
        return self._real(*arguments)


@pytest.mark.parametrize("batch", [keyed(1000), keyed(3, codec=Codec.ZSTD)], ids=["large", "compressed"])
def test_other_requests_are_served_while_a_large_batch_is_validated(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, batch: bytes
):
    gate = Gate(topic_rules.validate_records)
    monkeypatch.setattr(topic_rules, "validate_records", gate)
    with RawClient(broker.bootstrap_servers) as busy, RawClient(broker.bootstrap_servers) as other:
        other.create_topic("compacted", cleanup_policy="compact")
        other.create_topic("plain")
        busy.send(produce_request("compacted", batch), 12)
        assert gate.entered.wait(PATIENCE_S)
        assert other.produce("plain", batch_of(b"x")).error_code == 0
        assert other.fetch("compacted", 0).high_watermark == 0
        gate.opened.set()
        answer = busy.receive(0, 12, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0
    assert all(name.startswith("penstock-work") for name in gate.threads)


def test_other_requests_are_served_while_timestamps_of_a_large_batch_are_checked(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
):
    gate = Gate(topic_rules.bad_records)
    monkeypatch.setattr(topic_rules, "bad_records", gate)
    future_ms = 2**45
    batch = build_batch([Record(i, future_ms * i, b"k", b"v", ()) for i in range(3)], codec=Codec.ZSTD)
    with RawClient(broker.bootstrap_servers) as busy, RawClient(broker.bootstrap_servers) as other:
        other.create_topic("plain")
        busy.send(produce_request("plain", batch), 12)
        assert gate.entered.wait(PATIENCE_S)
        assert other.produce("plain", batch_of(b"x")).error_code == 0
        gate.opened.set()
        (answer,) = busy.receive(0, 12, ProduceResponse).responses[0].partition_responses
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert all(name.startswith("penstock-work") for name in gate.threads)


def test_a_small_batch_is_appended_after_the_large_one_before_it(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("compacted", cleanup_policy="compact")
        for count in (1000, 1, 1000, 2):
            client.send(produce_request("compacted", keyed(count)), 12)
        offsets = [
            client.receive(0, 12, ProduceResponse).responses[0].partition_responses[0].base_offset
            for _ in range(4)
        ]
        assert offsets == [0, 1000, 1001, 2001]


def test_an_invalid_large_batch_has_the_same_error_as_a_small_one(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("compacted", cleanup_policy="compact")
        for count in (1, 1000):
            answer = client.produce("compacted", keyed(count, key=None))
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert [error.batch_index for error in answer.record_errors] == list(range(count))


def test_record_validation_follows_the_topics_config(broker: EmbeddedBroker):
    with RawClient(broker.bootstrap_servers) as client:
        client.create_topic("t")
        assert client.produce("t", keyed(1000, key=None)).error_code == 0
        alter(client, TOPIC, "t", "cleanup.policy", "compact")
        assert client.produce("t", keyed(1000, key=None)).error_code == ErrorCode.INVALID_RECORD
        alter(client, TOPIC, "t", "cleanup.policy", "delete")
        assert client.produce("t", keyed(1000, key=None)).error_code == 0
        delete_topic(client, "t")
