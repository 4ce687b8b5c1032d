"""aiokafka against a broker process; consumers are assigned partitions, no groups."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from peers.brokers import Broker
from tests.foreign import on_disk
from tests.foreign.sample import CODECS, SENDABLE, Sample

pytestmark = pytest.mark.foreign

TIMEOUT_S = 30.0
T = TypeVar("T")


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, TIMEOUT_S))


@contextlib.asynccontextmanager
async def admin_of(broker: Broker) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@contextlib.asynccontextmanager
async def consumer_of(broker: Broker, **config: Any) -> AsyncIterator[AIOKafkaConsumer]:
    config = {"fetch_max_wait_ms": 100, "auto_offset_reset": "earliest", **config}
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, **config) as consumer:
        yield consumer


async def create(broker: Broker, topic: str, *, partitions: int = 1, **config: object) -> None:
    settings = {name.replace("_", "."): str(value) for name, value in config.items()}
    async with admin_of(broker) as admin:
        answer = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
        assert [error for _, error, *_ in answer.topic_errors] == [0]


async def send(broker: Broker, topic: str, samples: list[Sample], **config: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **config) as producer:
        sent = [
            await producer.send(topic, sample.value, sample.key, headers=list(sample.headers))
            for sample in samples
        ]
        await asyncio.gather(*sent)


async def receive(broker: Broker, topic: str, *, count: int, **config: Any) -> list[ConsumerRecord]:
    async with consumer_of(broker, **config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return await take(consumer, count)


async def take(consumer: AIOKafkaConsumer, count: int) -> list[ConsumerRecord]:
    return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent_and_lie_on_disk_under_their_codec(
    broker: Broker, topic: str, codec: str
) -> None:
    async def story() -> list[ConsumerRecord]:
        await create(broker, topic)
        await send(broker, topic, SENDABLE, compression_type=None if codec == "none" else codec, linger_ms=50)
        return await receive(broker, topic, count=len(SENDABLE))

    received = run(story())

    assert [Sample(r.key, r.value, tuple(r.headers)) for r in received] == SENDABLE
    assert [r.offset for r in received] == list(range(len(SENDABLE)))
    assert on_disk.codecs(broker.data, topic) == {codec}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement_delivers(broker: Broker, topic: str, acks: int | str) -> None:
    async def story() -> list[ConsumerRecord]:
        await create(broker, topic)
        await send(broker, topic, SENDABLE[:5], acks=acks)
        return await receive(broker, topic, count=5)

    assert len(run(story())) == 5


def test_an_idempotent_producer_writes_its_id_and_sequence(broker: Broker, topic: str) -> None:
    async def story() -> None:
        await create(broker, topic)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, str(number).encode())

    run(story())

    written = on_disk.batches(broker.data, topic)
    assert {header.producer_id for header in written} != {-1}
    assert [header.base_sequence for header in written] == list(range(10))


def test_large_messages_are_taken_up_to_the_limit(broker: Broker, topic: str) -> None:
    async def story() -> bytes | None:
        await create(broker, topic, max_message_bytes=2_000_000)
        await send(broker, topic, [Sample(None, b"x" * 1_900_000)], max_request_size=10_000_000)
        with pytest.raises(MessageSizeTooLargeError):
            await send(broker, topic, [Sample(None, b"x" * 2_100_000)], max_request_size=10_000_000)
        (record,) = await receive(broker, topic, count=1, max_partition_fetch_bytes=3_000_000)
        value: bytes | None = record.value
        return value

    assert run(story()) == b"x" * 1_900_000


def test_explicit_partitions_and_keys_find_their_partitions(broker: Broker, topic: str) -> None:
    async def story() -> None:
        await create(broker, topic, partitions=3)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(9):
                placed = await producer.send_and_wait(topic, b"explicit", partition=number % 3)
                assert (placed.partition, placed.offset) == (number % 3, number // 3)
            places = {(await producer.send_and_wait(topic, b"keyed", b"one key")).partition for _ in range(5)}
            assert len(places) == 1

    run(story())


def test_seek_by_time_and_by_offset(broker: Broker, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    base_ms = 1_700_000_000_000

    async def story() -> None:
        await create(broker, topic, retention_ms=-1)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(
                    topic, str(number).encode(), timestamp_ms=base_ms + number * 1000
                )
        async with consumer_of(broker) as consumer:
            consumer.assign([partition])
            found = await consumer.offsets_for_times({partition: base_ms + 2500})
            assert (found[partition].offset, found[partition].timestamp) == (3, base_ms + 3000)
            assert await consumer.offsets_for_times({partition: base_ms + 9001}) == {partition: None}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            consumer.seek(partition, 3)
            assert [record.value for record in await take(consumer, 2)] == [b"3", b"4"]

    run(story())


def test_a_fetch_beyond_the_end_is_an_offset_out_of_range_error(broker: Broker, topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def story() -> None:
        await create(broker, topic)
        async with consumer_of(broker, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 99)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone()

    run(story())


def test_topics_are_created_described_grown_and_deleted(broker: Broker, topic: str) -> None:
    async def story() -> None:
        async with admin_of(broker) as admin:
            await admin.create_topics([NewTopic(topic, 2, 1)])
            answer = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert [error for _, error, *_ in answer.topic_errors] == [TopicAlreadyExistsError.errno]
            assert topic in await admin.list_topics()
            await admin.create_partitions({topic: NewPartitions(4)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 4
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()

    run(story())


def test_configs_are_described_and_altered(broker: Broker, topic: str) -> None:
    async def value(admin: AIOKafkaAdminClient) -> dict[str, str]:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return {name: shown for name, shown, *_ in answer.resources[0][4]}

    async def story() -> None:
        await create(broker, topic, retention_ms=1000)
        async with admin_of(broker) as admin:
            assert (await value(admin))["retention.ms"] == "1000"
            changed = ConfigResource(ConfigResourceType.TOPIC, topic, {"cleanup.policy": "compact"})
            await admin.alter_configs([changed])
            after = await value(admin)
            assert (after["cleanup.policy"], after["retention.ms"]) == ("compact", "604800000")

    run(story())


def test_records_are_deleted_up_to_an_offset(broker: Broker, topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def story() -> None:
        await create(broker, topic)
        await send(broker, topic, SENDABLE)
        async with admin_of(broker) as admin:
            await admin.delete_records({partition: RecordsToDelete(before_offset=7)})
        (first,) = await receive(broker, topic, count=1)
        assert first.offset == 7

    run(story())


def test_the_cluster_is_described(broker: Broker) -> None:
    async def story() -> dict[str, Any]:
        async with admin_of(broker) as admin:
            described: dict[str, Any] = await admin.describe_cluster()
            return described

    described = run(story())

    assert described["cluster_id"] == broker.cluster_id
    assert [f"{node['host']}:{node['port']}" for node in described["brokers"]] == [broker.bootstrap]
