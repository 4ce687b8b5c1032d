"""kafka-python against a broker process; consumers are assigned partitions, no groups."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic, OffsetSpec
from kafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from peers.brokers import Broker
from tests.foreign import on_disk
from tests.foreign.sample import CODECS, SENDABLE, Sample

pytestmark = pytest.mark.foreign

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        yield admin


def create(admin: KafkaAdminClient, topic: str, *, partitions: int = 1, **config: object) -> None:
    settings = {name.replace("_", "."): str(value) for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])


@contextlib.contextmanager
def producer_of(broker: Broker, **config: Any) -> Iterator[KafkaProducer]:
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap, **config)) as producer:
        yield producer


@contextlib.contextmanager
def consumer_of(broker: Broker, partition: TopicPartition, **config: Any) -> Iterator[KafkaConsumer]:
    config = {"fetch_max_wait_ms": 100, "auto_offset_reset": "earliest", **config}
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, consumer_timeout_ms=TIMEOUT_S * 1000, **config
    )
    with contextlib.closing(consumer):
        consumer.assign([partition])
        yield consumer


def send(broker: Broker, topic: str, samples: list[Sample], **config: Any) -> None:
    with producer_of(broker, **config) as producer:
        sent = [
            producer.send(topic, sample.value, sample.key, headers=list(sample.headers)) for sample in samples
        ]
        for future in sent:
            future.get(TIMEOUT_S)


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    return [next(consumer) for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent_and_lie_on_disk_under_their_codec(
    broker: Broker, admin: KafkaAdminClient, topic: str, codec: str
) -> None:
    create(admin, topic)
    send(broker, topic, SENDABLE, compression_type=None if codec == "none" else codec, linger_ms=50)

    with consumer_of(broker, TopicPartition(topic, 0)) as consumer:
        received = take(consumer, len(SENDABLE))

    assert [Sample(r.key, r.value, tuple(r.headers)) for r in received] == SENDABLE
    assert [r.offset for r in received] == list(range(len(SENDABLE)))
    assert on_disk.codecs(broker.data, topic) == {codec}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_delivers(
    broker: Broker, admin: KafkaAdminClient, topic: str, acks: int | str
) -> None:
    create(admin, topic)
    send(broker, topic, SENDABLE[:5], acks=acks, enable_idempotence=False)

    with consumer_of(broker, TopicPartition(topic, 0)) as consumer:
        assert len(take(consumer, 5)) == 5


def test_an_idempotent_producer_writes_its_id_and_sequence(
    broker: Broker, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic)
    with producer_of(broker, enable_idempotence=True) as producer:
        for number in range(10):
            producer.send(topic, str(number).encode()).get(TIMEOUT_S)

    written = on_disk.batches(broker.data, topic)
    assert {header.producer_id for header in written} != {-1}
    assert [header.base_sequence for header in written] == list(range(10))


def test_large_messages_are_taken_up_to_the_limit(
    broker: Broker, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic, max_message_bytes=2_000_000)
    send(broker, topic, [Sample(None, b"x" * 1_900_000)], max_request_size=10_000_000)

    with pytest.raises(MessageSizeTooLargeError):
        send(broker, topic, [Sample(None, b"x" * 2_100_000)], max_request_size=10_000_000)
    with consumer_of(broker, TopicPartition(topic, 0)) as consumer:
        assert next(consumer).value == b"x" * 1_900_000


def test_explicit_partitions_and_keys_find_their_partitions(
    broker: Broker, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic, partitions=3)
    with producer_of(broker) as producer:
        for number in range(9):
            placed = producer.send(topic, b"explicit", partition=number % 3).get(TIMEOUT_S)
            assert (placed.partition, placed.offset) == (number % 3, number // 3)
        keyed = [producer.send(topic, b"keyed", b"one key") for _ in range(5)]
        assert len({future.get(TIMEOUT_S).partition for future in keyed}) == 1


def test_seek_by_time_and_by_offset(broker: Broker, admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, retention_ms=-1)
    partition = TopicPartition(topic, 0)
    base_ms = 1_700_000_000_000
    with producer_of(broker) as producer:
        for number in range(10):
            producer.send(topic, str(number).encode(), timestamp_ms=base_ms + number * 1000).get(TIMEOUT_S)

    with consumer_of(broker, partition) as consumer:
        found = consumer.offsets_for_times({partition: base_ms + 2500})[partition]
        assert (found.offset, found.timestamp) == (3, base_ms + 3000)
        assert consumer.offsets_for_times({partition: base_ms + 9001}) == {partition: None}
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        consumer.seek(partition, 3)
        assert [record.value for record in take(consumer, 2)] == [b"3", b"4"]


def test_a_fetch_beyond_the_end_is_an_offset_out_of_range_error(
    broker: Broker, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic)
    partition = TopicPartition(topic, 0)
    with consumer_of(broker, partition, auto_offset_reset="none") as consumer:
        consumer.seek(partition, 99)
        with pytest.raises(OffsetOutOfRangeError):
            next(consumer)


def test_topics_are_created_described_grown_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, partitions=2)
    with pytest.raises(TopicAlreadyExistsError):
        create(admin, topic, partitions=2)

    assert topic in admin.list_topics()
    admin.create_partitions({topic: NewPartitions(4)})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 4
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_the_cluster_is_described(broker: Broker, admin: KafkaAdminClient) -> None:
    described = admin.describe_cluster()

    assert described["cluster_id"] == broker.cluster_id
    assert [f"{node['host']}:{node['port']}" for node in described["brokers"]] == [broker.bootstrap]


@pytest.mark.parametrize("incremental", [True, False])
def test_configs_are_described_and_altered(admin: KafkaAdminClient, topic: str, incremental: bool) -> None:
    create(admin, topic, retention_ms=1000)

    def modified() -> dict[str, str]:
        shown = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return {name: entry["value"] for name, entry in shown["topic"][topic].items()}

    assert modified() == {"retention.ms": "1000"}
    change = ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": "compact"})
    admin.alter_configs([change], incremental=incremental)
    assert modified() == {"retention.ms": "1000", "cleanup.policy": "compact"}


def test_records_are_deleted_up_to_an_offset(broker: Broker, admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    send(broker, topic, SENDABLE)
    partition = TopicPartition(topic, 0)

    admin.delete_records({partition: 7})

    with consumer_of(broker, partition) as consumer:
        assert next(consumer).offset == 7


def test_offsets_are_listed_by_every_specification(
    broker: Broker, admin: KafkaAdminClient, topic: str
) -> None:
    create(admin, topic, retention_ms=-1)
    partition = TopicPartition(topic, 0)
    with producer_of(broker) as producer:
        for timestamp in (3000, 9000, 5000):
            producer.send(topic, b"x", timestamp_ms=timestamp).get(TIMEOUT_S)

    def offset(specification: int) -> int:
        return int(admin.list_partition_offsets({partition: specification})[partition].offset)

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.EARLIEST_LOCAL) == 0
    assert offset(OffsetSpec.LATEST) == 3
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 1
    assert offset(OffsetSpec.LATEST_TIERED) == -1
    assert offset(4000) == 1


def test_the_log_directory_is_described(broker: Broker, admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    send(broker, topic, SENDABLE)

    (answer,) = admin.describe_log_dirs([topic])

    sizes = [
        partition["partition_size"]
        for directory in answer["log_dirs"]
        for described in directory["topics"]
        if described["name"] == topic
        for partition in described["partitions"]
    ]
    assert sizes == [sum(header.size for header in on_disk.batches(broker.data, topic))]
