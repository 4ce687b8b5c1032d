"""An embedded broker's own helpers for topics and records, and how soon a group forms on it."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from penstock.base.errors import UserError
from penstock.testing import EmbeddedBroker
from tests.apis.requests import BROKER, config
from tests.raw_client import RawClient


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def test_a_topic_has_the_partitions_and_configs_it_was_created_with(broker: EmbeddedBroker) -> None:
    broker.create_topic("made", partitions=3, configs={"retention.ms": "1234"})
    for partition in range(3):
        broker.send("made", str(partition), partition=partition)
    assert [record.partition for record in broker.records("made")] == [0, 1, 2]
    with RawClient(broker.bootstrap_servers) as client:
        assert config(client, 2, "made", "retention.ms").value == "1234"
    with pytest.raises(UserError, match=r"topic 'made' was not created: .*already exists"):
        broker.create_topic("made")


def test_what_is_sent_can_be_read_with_its_key_headers_and_offsets(broker: EmbeddedBroker) -> None:
    broker.send("sent", b"one", "two", None, key="k", headers=(("h", b"v"),))
    found = broker.records("sent")
    assert [(record.offset, record.value) for record in found] == [(0, b"one"), (1, b"two"), (2, None)]
    assert {(record.key, record.headers) for record in found} == {(b"k", (("h", b"v"),))}
    assert broker.records("nothing-of-that-name") == []


def test_reading_waits_for_as_many_records_as_are_expected(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 100})
    producer.produce("awaited", b"late")
    assert [record.value for record in broker.records("awaited", count=1)] == [b"late"]
    producer.flush(10)
    with pytest.raises(UserError, match=r"topic 'awaited' holds 1 records after 0\.05 s; 2 were expected"):
        broker.records("awaited", count=2, timeout_s=0.05)


def test_records_of_a_transaction_that_was_aborted_are_left_out_on_demand(broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(20)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("transactional", value)
        producer.flush(20)
        end(20)
    assert [record.value for record in broker.records("transactional")] == [b"aborted", b"committed"]
    assert [record.value for record in broker.records("transactional", committed_only=True)] == [b"committed"]


def test_in_an_asyncio_program_they_are_called_on_a_thread() -> None:
    async def program() -> list[bytes | None]:
        async with EmbeddedBroker() as broker:
            with pytest.raises(UserError, match=r"asyncio\.to_thread"):
                broker.send("t", b"x")
            await asyncio.to_thread(broker.send, "t", b"x")
            return [record.value for record in await asyncio.to_thread(broker.records, "t", count=1)]

    assert asyncio.run(program()) == [b"x"]


def test_a_group_forms_without_waiting_for_members_that_a_test_does_not_have() -> None:
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        assert config(client, BROKER, "1", "group.initial.rebalance.delay.ms").value == "0"
        broker.send("orders", b"x")
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["orders"])
        begun = time.monotonic()
        message = consumer.poll(20)
        took_s = time.monotonic() - begun
        consumer.close()
    assert message is not None
    assert took_s < 15, "no time is asserted on a busy machine; it was 3.2 s and is 0.2 s"
    settings = {"group.initial.rebalance.delay.ms": 100}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        assert config(client, BROKER, "1", "group.initial.rebalance.delay.ms").value == "100"
