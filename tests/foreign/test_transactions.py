"""Transactions of confluent-kafka, aiokafka and kafka-python: the same tests with each."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from peers.brokers import Broker
from tests.chaos.reading import committed_values, create_topics
from tests.foreign.transacting import CLIENTS, PATIENCE_S, Transacting

pytestmark = pytest.mark.foreign

Start = Callable[[], Transacting]
END = b"the end"


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> type[Transacting]:
    return CLIENTS[request.param]


@pytest.fixture
def start(client: type[Transacting], broker: Broker, topic: str) -> Iterator[Start]:
    """Starts producers that all have the same transactional id; the topic is there."""
    create_topics(broker.bootstrap, topic, partitions=1)
    with contextlib.ExitStack() as stack:

        def start() -> Transacting:
            producer = client(broker.bootstrap, f"id-of-{topic}")
            stack.callback(producer.close)
            return producer

        yield start


def send_plainly(broker: Broker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def committed_offset(broker: Broker, group: str, topic: str) -> int:
    with contextlib.closing(Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})) as consumer:
        return int(consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset)


def test_read_committed_sees_only_committed_records_and_read_uncommitted_all(
    client: type[Transacting], start: Start, broker: Broker, topic: str
) -> None:
    producer = start()
    for values, commit in (((b"a", b"b"), True), ((b"c",), False), ((b"d",), True)):
        producer.begin()
        for value in values:
            producer.send(topic, value)
        producer.commit() if commit else producer.abort()
    send_plainly(broker, topic, END)

    def read(isolation: str) -> list[bytes]:
        return client.read(broker.bootstrap, topic, isolation=isolation, until=END)

    assert read("read_committed") == [b"a", b"b", b"d", END]
    assert read("read_uncommitted") == [b"a", b"b", b"c", b"d", END]


def test_an_open_transaction_holds_back_readers_of_committed_records(
    start: Start, client: type[Transacting], broker: Broker, topic: str
) -> None:
    send_plainly(broker, topic, b"before")
    producer = start()
    producer.begin()
    producer.send(topic, b"in the transaction")
    send_plainly(broker, topic, b"beside")
    assert committed_values(broker.bootstrap, topic, partitions=1)[0] == [b"before"]

    producer.commit()
    send_plainly(broker, topic, END)
    read = client.read(broker.bootstrap, topic, isolation="read_committed", until=END)
    assert read == [b"before", b"in the transaction", b"beside", END]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    start: Start, broker: Broker, topic: str
) -> None:
    group = f"group-{topic}"
    producer = start()
    producer.begin()
    producer.send(topic, b"work")
    producer.send_offset(group, topic, 5)
    producer.commit()
    producer.begin()
    producer.send_offset(group, topic, 9)
    producer.abort()
    # Another transaction begins when the markers of the one before are written.
    producer.begin()
    producer.send(topic, b"more")
    producer.commit()

    assert committed_offset(broker, group, topic) == 5


def test_a_second_producer_with_the_same_transactional_id_fences_the_first(
    start: Start, client: type[Transacting], broker: Broker, topic: str
) -> None:
    first = start()
    first.begin()
    first.send(topic, b"of the first")
    second = start()
    with pytest.raises(client.fenced_error):
        first.commit()

    second.begin()
    second.send(topic, b"of the second")
    second.commit()
    send_plainly(broker, topic, END)
    read = client.read(broker.bootstrap, topic, isolation="read_committed", until=END)
    assert read == [b"of the second", END]


def test_a_transaction_outlives_the_killing_of_the_broker(
    client: type[Transacting], own_broker: Broker, topic: str
) -> None:
    create_topics(own_broker.bootstrap, topic, partitions=1)
    with contextlib.closing(client(own_broker.bootstrap, topic)) as producer:
        producer.begin()
        producer.send(topic, b"before")
        own_broker.kill()
        own_broker.start()
        producer.send(topic, b"after")
        producer.commit()
    send_plainly(own_broker, topic, END)

    read = client.read(own_broker.bootstrap, topic, isolation="read_committed", until=END)
    assert read == [b"before", b"after", END]
