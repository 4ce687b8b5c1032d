"""confluent-kafka (librdkafka) against a broker process; consumers are assigned partitions, no groups."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from peers.brokers import Broker
from tests.foreign import on_disk
from tests.foreign.sample import CODECS, SAMPLES, Sample

pytestmark = pytest.mark.foreign

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def create(admin: AdminClient, topic: str) -> Callable[..., str]:
    def create(*, partitions: int = 1, **config: object) -> str:
        settings = {name.replace("_", "."): str(value) for name, value in config.items()}
        result(admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]))
        return topic

    return create


@pytest.fixture
def consume(broker: Broker) -> Callable[..., list[Message]]:
    def consume(
        topic: str, *, count: int, offset: int = 0, partition: int = 0, **config: object
    ) -> list[Message]:
        with consumer_of(broker, **config) as consumer:
            consumer.assign([TopicPartition(topic, partition, offset)])
            return take(consumer, count)

    return consume


def test_records_of_all_kinds_come_back_as_they_were_sent(
    broker: Broker, create: Callable[..., str], consume: Callable[..., list[Message]]
) -> None:
    topic = create()
    send(broker, topic, SAMPLES)

    received = consume(topic, count=len(SAMPLES))

    assert [Sample(m.key(), m.value(), tuple(m.headers() or ())) for m in received] == SAMPLES
    assert [m.offset() for m in received] == list(range(len(SAMPLES)))


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_lies_on_disk_under_the_producers_codec(
    broker: Broker, create: Callable[..., str], consume: Callable[..., list[Message]], codec: str
) -> None:
    topic = create()
    # librdkafka sends a batch uncompressed where compression makes it no smaller: none of these, whatever is a batch.
    padded = [sample._replace(headers=(*sample.headers, ("padding", b"x" * 500))) for sample in SAMPLES]
    send(broker, topic, padded, **{"compression.type": codec, "linger.ms": 60_000})

    assert on_disk.codecs(broker.data, topic) == {codec}
    assert [m.value() for m in consume(topic, count=len(SAMPLES))] == [sample.value for sample in SAMPLES]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_with_a_codec_of_its_own_has_batches_compressed_again(
    broker: Broker, create: Callable[..., str], consume: Callable[..., list[Message]], codec: str
) -> None:
    topic = create(compression_type=codec)
    send(
        broker, topic, SAMPLES, **{"compression.type": "lz4" if codec != "lz4" else "none", "linger.ms": 500}
    )

    assert on_disk.codecs(broker.data, topic) == {codec.replace("uncompressed", "none")}
    assert [m.value() for m in consume(topic, count=len(SAMPLES))] == [sample.value for sample in SAMPLES]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_delivers(
    broker: Broker, create: Callable[..., str], consume: Callable[..., list[Message]], acks: str
) -> None:
    topic = create()
    send(broker, topic, SAMPLES[:5], acks=acks)

    assert len(consume(topic, count=5)) == 5


def test_an_idempotent_producer_writes_its_id_and_sequence(
    broker: Broker, create: Callable[..., str]
) -> None:
    topic = create()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for number in range(10):
        producer.produce(topic, str(number))
        producer.flush(TIMEOUT_S)

    written = on_disk.batches(broker.data, topic)
    assert len({header.producer_id for header in written}) == 1
    assert written[0].producer_id >= 0
    assert [header.base_sequence for header in written] == list(range(10))


def test_a_message_up_to_the_limit_is_taken_and_a_larger_one_refused(
    broker: Broker, create: Callable[..., str], consume: Callable[..., list[Message]]
) -> None:
    topic = create(max_message_bytes=2_000_000)
    large = b"x" * 1_900_000
    limits = {"message.max.bytes": 10_000_000}
    send(broker, topic, [Sample(None, large)], **limits)

    assert consume(topic, count=1)[0].value() == large
    with pytest.raises(KafkaException) as refused:
        send(broker, topic, [Sample(None, b"x" * 2_100_000)], **limits)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_batch_larger_than_the_fetch_is_still_given(
    broker: Broker, create: Callable[..., str], consume: Callable[..., list[Message]]
) -> None:
    topic = create()
    send(broker, topic, [Sample(None, b"y" * 900_000), Sample(None, b"after it")])

    small = {"max.partition.fetch.bytes": 1000, "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    assert [len(m.value() or b"") for m in consume(topic, count=2, **small)] == [900_000, 8]


def test_keys_explicit_partitions_and_no_key_find_their_partitions(
    broker: Broker, create: Callable[..., str]
) -> None:
    topic = create(partitions=3)
    placed: list[tuple[bytes | None, int]] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "sticky.partitioning.linger.ms": 0})
    for number in range(30):
        producer.produce(
            topic, "keyed", key=f"key {number % 5}", on_delivery=lambda _, m: placed.append(where(m))
        )
    for number in range(9):
        producer.produce(
            topic, "explicit", partition=number % 3, on_delivery=lambda _, m: placed.append(where(m))
        )
    for _ in range(60):
        producer.produce(topic, "anywhere", on_delivery=lambda _, m: placed.append(where(m)))
    assert producer.flush(TIMEOUT_S) == 0

    keyed = {place for place in placed if place[0] is not None}
    assert len(keyed) == 5, "a key always goes to the same partition"
    counts = [sum(header.record_count for header in on_disk.batches(broker.data, topic, p)) for p in range(3)]
    assert sum(counts) == 99
    assert all(counts)


def test_seek_by_time_finds_the_first_record_not_older(broker: Broker, create: Callable[..., str]) -> None:
    topic = create(retention_ms=-1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    base_ms = 1_700_000_000_000
    for number in range(10):
        producer.produce(topic, str(number), timestamp=base_ms + number * 1000)
    assert producer.flush(TIMEOUT_S) == 0

    def found(timestamp_ms: int) -> int:
        (answer,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], TIMEOUT_S)
        assert answer.error is None
        return int(answer.offset)

    with consumer_of(broker) as consumer:
        assert found(base_ms) == 0
        assert found(base_ms + 2500) == 3
        assert found(base_ms + 9000) == 9
        assert found(base_ms + 9001) == confluent_kafka.OFFSET_END
        consumer.assign([TopicPartition(topic, 0, found(base_ms + 4001))])
        assert [m.value() for m in take(consumer, 2)] == [b"5", b"6"]
        consumer.seek(TopicPartition(topic, 0, 1))
        assert take(consumer, 1)[0].offset() == 1


def test_append_time_is_the_brokers_clock(
    broker: Broker, create: Callable[..., str], consume: Callable[..., list[Message]]
) -> None:
    topic = create(message_timestamp_type="LogAppendTime")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, "x", timestamp=1000)
    assert producer.flush(TIMEOUT_S) == 0

    (message,) = consume(topic, count=1)
    kind, timestamp_ms = message.timestamp()
    assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
    assert timestamp_ms > 1_700_000_000_000


def test_a_consumer_at_the_end_waits_for_what_comes(broker: Broker, create: Callable[..., str]) -> None:
    topic = create()
    with consumer_of(broker, **{"enable.partition.eof": True}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        end = consumer.poll(TIMEOUT_S)
        assert end is not None
        assert end.error().code() == KafkaError._PARTITION_EOF
        send(broker, topic, [Sample(None, b"news")])
        assert take(consumer, 1)[0].value() == b"news"


def test_watermarks_and_offset_out_of_range(broker: Broker, create: Callable[..., str]) -> None:
    topic = create()
    send(broker, topic, SAMPLES)
    with consumer_of(broker, **{"auto.offset.reset": "error"}) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, len(SAMPLES))
        consumer.assign([TopicPartition(topic, 0, 10_000)])
        refused = consumer.poll(TIMEOUT_S)
        assert refused is not None
        assert refused.error().code() == KafkaError._AUTO_OFFSET_RESET


def test_topics_are_created_described_grown_and_deleted(admin: AdminClient, topic: str) -> None:
    result(admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "1000"})]))
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 2

    described = result(admin.describe_topics(confluent_kafka.TopicCollection([topic])))
    assert described.name == topic
    assert [(p.id, p.leader.id, len(p.replicas), len(p.isr)) for p in described.partitions] == [
        (0, 1, 1, 1),
        (1, 1, 1, 1),
    ]

    result(admin.create_partitions([NewPartitions(topic, 4)]))
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 4

    result(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_what_cannot_be_created_is_refused_with_kafkas_errors(admin: AdminClient, topic: str) -> None:
    def refusal(new: NewTopic) -> int:
        with pytest.raises(KafkaException) as refused:
            result(admin.create_topics([new]))
        return int(refused.value.args[0].code())

    result(admin.create_topics([NewTopic(topic, 1, 1)]))
    assert refusal(NewTopic(topic, 1, 1)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert refusal(NewTopic("no spaces", 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert refusal(NewTopic(f"{topic}-x", 0, 1)) == KafkaError.INVALID_PARTITIONS
    assert refusal(NewTopic(f"{topic}-x", 1, 3)) == KafkaError.INVALID_REPLICATION_FACTOR
    assert refusal(NewTopic(f"{topic}-x", 1, 1, config={"retention.ms": "soon"})) == KafkaError.INVALID_CONFIG
    assert refusal(NewTopic(f"{topic}-x", 1, 1, config={"no.such": "1"})) == KafkaError.INVALID_CONFIG


def test_validating_creates_nothing(admin: AdminClient, topic: str) -> None:
    result(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))

    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_configs_are_described_and_altered(admin: AdminClient, create: Callable[..., str]) -> None:
    topic = create(retention_ms=1000)

    def entry(name: str) -> ConfigEntry:
        return result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[name]

    assert (entry("retention.ms").value, entry("retention.ms").source) == (
        "1000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert entry("cleanup.policy").is_default

    change = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    result(admin.incremental_alter_configs([resource]))
    assert entry("cleanup.policy").value == "compact"
    assert entry("retention.ms").value == "1000"

    with pytest.warns(DeprecationWarning, match="alter_configs"):
        result(
            admin.alter_configs(
                [ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "1048576"})]
            )
        )
    assert entry("segment.bytes").value == "1048576"
    assert entry("retention.ms").is_default, "AlterConfigs replaces all"


def test_the_brokers_own_configs_are_described(admin: AdminClient) -> None:
    configs = result(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))

    assert configs["node.id"].value == "1"
    assert configs["node.id"].is_read_only
    assert "log.retention.ms" in configs


def test_records_are_deleted_up_to_an_offset(
    broker: Broker, admin: AdminClient, create: Callable[..., str], consume: Callable[..., list[Message]]
) -> None:
    topic = create()
    send(broker, topic, SAMPLES)

    deleted = result(admin.delete_records([TopicPartition(topic, 0, 7)]))

    assert deleted.low_watermark == 7
    (first,) = consume(topic, count=1, **{"auto.offset.reset": "earliest"})
    assert first.offset() == 7


def test_offsets_are_listed_by_every_specification(
    broker: Broker, admin: AdminClient, create: Callable[..., str]
) -> None:
    topic = create(retention_ms=-1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for timestamp in (3000, 9000, 5000):
        producer.produce(topic, "x", timestamp=timestamp)
    assert producer.flush(TIMEOUT_S) == 0

    def offset(specification: OffsetSpec) -> int:
        return int(result(admin.list_offsets({TopicPartition(topic, 0): specification})).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(4000)) == 1


def test_the_cluster_is_described(broker: Broker, admin: AdminClient) -> None:
    cluster = admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S)

    assert cluster.cluster_id == broker.cluster_id
    assert [(node.id, f"{node.host}:{node.port}") for node in cluster.nodes] == [(1, broker.bootstrap)]
    assert cluster.controller.id == 1


def test_a_topic_is_created_by_producing_to_it(
    broker: Broker, topic: str, consume: Callable[..., list[Message]]
) -> None:
    send(broker, topic, SAMPLES[:1])

    assert len(consume(topic, count=1)) == 1


def test_a_recreated_topic_starts_empty_for_a_consumer_of_the_old_one(
    broker: Broker, admin: AdminClient, create: Callable[..., str]
) -> None:
    topic = create()
    send(broker, topic, SAMPLES)
    result(admin.delete_topics([topic]))
    create()
    send(broker, topic, [Sample(None, b"of the new one")])

    with consumer_of(broker, **{"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        assert take(consumer, 1)[0].value() == b"of the new one"


def result(futures: Any) -> Any:
    """What the only future of an admin call gives."""
    (future,) = futures.values()
    assert isinstance(future, Future)
    return future.result(TIMEOUT_S)


def send(broker: Broker, topic: str, samples: list[Sample], **config: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **config})
    errors: list[KafkaError] = []
    for sample in samples:
        producer.produce(
            topic,
            sample.value,
            sample.key,
            headers=list(sample.headers),
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S) == 0, "not delivered in time"
    if errors:
        raise KafkaException(errors[0])


def where(message: Message) -> tuple[bytes | None, int]:
    assert message.error() is None
    return message.key(), int(message.partition() or 0)


@contextlib.contextmanager
def consumer_of(broker: Broker, **config: object) -> Iterator[Consumer]:
    settings = {
        "group.id": f"unused-{uuid.uuid4().hex}",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **settings, **config})
    try:
        yield consumer
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{len(messages)} of {count} messages came in time"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            continue
        messages.append(message)
    return messages
