"""The client against a whole broker."""

from typing import Any

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.configs import Resource, ResourceType, alter_configs, describe_configs
from penstock.client.errors import AnsweredError, NoAnswerError
from penstock.client.fetch import read_batches, read_fetched
from penstock.client.fetcher import Fetcher
from penstock.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, NO_OFFSET, find_offsets, list_offsets
from penstock.client.produce import ACKS_LEADER, ACKS_NONE, ProduceResult, produce
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import (
    Created,
    NewTopic,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    replica_sizes,
)
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record


def create(blocking: BlockingClient, topic: str, *, partitions: int = 1, **configs: str) -> None:
    new = NewTopic(topic, partitions, 1, {name.replace("_", "."): value for name, value in configs.items()})
    result = blocking.run(create_topics(blocking.client, [new]))[topic]
    assert isinstance(result, Created)
    assert result.partitions == partitions


async def read(client: Client, topic: str, *, count: int) -> list[Record]:
    """The first `count` records of a topic, by offset within each partition."""
    known = await client.topic(topic)
    fetcher = Fetcher(client, {TopicPartition(topic, each.partition): 0 for each in known.partitions})
    records: list[Record] = []
    while len(records) < count:
        for fetched in await fetcher.poll():
            for header, batch in read_batches(fetched):
                position = fetcher.positions[fetched.partition]
                records += read_fetched(batch, header, from_offset=position)
                fetcher.advance(fetched.partition, header.next_offset)
    await fetcher.close()
    return records


def test_a_topic_lives_from_creation_to_deletion(blocking: BlockingClient, topic: str) -> None:
    client = blocking.client
    create(blocking, topic, partitions=2)
    again = blocking.run(create_topics(client, [NewTopic(topic, 1, 1)]))[topic]
    assert isinstance(again, Refusal)
    assert again.code == ErrorCode.TOPIC_ALREADY_EXISTS

    assert blocking.run(create_partitions(client, {topic: 4})) == {topic: None}
    assert len(blocking.run(client.topic(topic)).partitions) == 4
    shrunk = blocking.run(create_partitions(client, {topic: 2}))[topic]
    assert shrunk is not None
    assert shrunk.code == ErrorCode.INVALID_PARTITIONS

    assert blocking.run(delete_topics(client, [topic])) == {topic: None}
    gone = blocking.run(delete_topics(client, [topic]))[topic]
    assert gone is not None
    assert gone.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_validating_creates_nothing(blocking: BlockingClient, topic: str) -> None:
    client = blocking.client
    result = blocking.run(create_topics(client, [NewTopic(topic, 1, 1)], validate_only=True))[topic]
    assert isinstance(result, Created)
    with pytest.raises(AnsweredError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        blocking.run(client.topic(topic))


def test_configs_are_read_changed_and_reset(blocking: BlockingClient, topic: str) -> None:
    client = blocking.client
    resource = Resource(ResourceType.TOPIC, topic)

    def own() -> dict[str, str | None]:
        configs = blocking.run(describe_configs(client, [resource]))[resource]
        assert not isinstance(configs, Refusal)
        return {config.name: config.value for config in configs if config.is_own}

    def becomes(expected: dict[str, str]) -> bool:
        # Apache Kafka's brokers apply a change a little after the controller has answered.
        return any(own() == expected for _ in range(200))

    create(blocking, topic, retention_ms="60000")
    assert becomes({"retention.ms": "60000"})
    blocking.run(
        alter_configs(client, resource, set_to={"cleanup.policy": "compact"}, reset=["retention.ms"])
    )
    assert becomes({"cleanup.policy": "compact"})
    with pytest.raises(AnsweredError, match=f"topic {topic}"):
        blocking.run(alter_configs(client, resource, set_to={"no.such.config": "1"}))


def test_a_brokers_own_configs_are_asked_of_that_broker(blocking: BlockingClient) -> None:
    (broker, *_) = blocking.run(blocking.client.brokers())
    resource = Resource(ResourceType.BROKER, str(broker.node_id))
    configs = blocking.run(describe_configs(blocking.client, [resource], documentation=True))[resource]
    assert not isinstance(configs, Refusal)
    assert "num.partitions" in [config.name for config in configs]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_as_they_went(blocking: BlockingClient, topic: str, codec: Codec) -> None:
    create(blocking, topic)
    sent = [
        NewRecord(b"key", b"value", (("h", b"1"), ("h", None)), 1_000),
        NewRecord(None, None, (), 2_000),
        NewRecord(b"", b"", (), 3_000),
    ]
    producer = Producer(blocking.client, codec=codec)
    blocking.run(producer.send(topic, sent))
    records = blocking.run(read(blocking.client, topic, count=3))
    assert [(each.key, each.value, each.headers, each.timestamp) for each in records] == [
        (each.key, each.value, each.headers, each.timestamp) for each in sent
    ]
    (tally,) = producer.tallies.values()
    assert (tally.record_count, tally.first_offset, tally.last_offset) == (3, 0, 2)


def test_many_records_go_to_all_partitions_each_key_in_order(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic, partitions=3)
    producer = Producer(blocking.client, batch_bytes_max=2_000)
    for start in range(0, 900, 300):
        chunk = [NewRecord(b"%d" % (n % 20), b"%d" % n) for n in range(start, start + 300)]
        blocking.run(producer.send(topic, chunk))
    assert sum(tally.record_count for tally in producer.tallies.values()) == 900
    assert len(producer.tallies) == 3
    by_key: dict[bytes | None, list[int]] = {}
    for record in blocking.run(read(blocking.client, topic, count=900)):
        by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert len(by_key) == 20
    for numbers in by_key.values():
        assert numbers == sorted(numbers)


def test_records_without_a_key_take_turns(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic, partitions=3)
    producer = Producer(blocking.client)
    for _ in range(3):
        blocking.run(producer.send(topic, [NewRecord(None, b"v")]))
    assert [tally.record_count for tally in producer.tallies.values()] == [1, 1, 1]


def test_a_batch_too_large_for_the_topic_is_split_and_a_record_too_large_is_refused(
    blocking: BlockingClient, topic: str
) -> None:
    create(blocking, topic, max_message_bytes="2000")
    producer = Producer(blocking.client)
    blocking.run(producer.send(topic, [NewRecord(None, b"x" * 100) for _ in range(100)]))
    assert len(blocking.run(read(blocking.client, topic, count=100))) == 100
    with pytest.raises(AnsweredError, match="MESSAGE_TOO_LARGE"):
        blocking.run(producer.send(topic, [NewRecord(None, b"x" * 3000)]))


def test_what_arrived_beside_a_refused_record_is_counted(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic, partitions=2, max_message_bytes="2000")
    producer = Producer(blocking.client)
    records = [NewRecord(None, b"x" * 3000, partition=0), NewRecord(None, b"small", partition=1)]
    with pytest.raises(AnsweredError, match=f"produce to {topic}-0: .*MESSAGE_TOO_LARGE"):
        blocking.run(producer.send(topic, records))
    assert {partition.partition: each.record_count for partition, each in producer.tallies.items()} == {1: 1}


def test_an_idempotent_batch_sent_twice_is_appended_once(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic)
    producer = Producer(blocking.client)
    blocking.run(producer.send(topic, [NewRecord(None, b"first")]))
    assert producer._producer is not None
    producer_id, producer_epoch = producer._producer
    batch = build_batch(
        [Record(0, 1, None, b"second")],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=1,
    )
    partition = TopicPartition(topic, 0)
    for _ in range(2):
        result = blocking.run(produce(blocking.client, {partition: batch}))[partition]
        assert isinstance(result, ProduceResult)
        assert result.base_offset == 1
    assert blocking.run(find_offsets(blocking.client, {partition: LATEST})) == {partition: 2}


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_NONE])
def test_fewer_acks_are_fewer_answers(blocking: BlockingClient, topic: str, acks: int) -> None:
    create(blocking, topic)
    blocking.run(Producer(blocking.client).send(topic, [NewRecord(None, b"surely there")]))
    producer = Producer(blocking.client, acks=acks)
    blocking.run(producer.send(topic, [NewRecord(None, b"v")]))
    (tally,) = producer.tallies.values()
    assert tally.first_offset == (NO_OFFSET if acks == ACKS_NONE else 1)
    assert [each.value for each in blocking.run(read(blocking.client, topic, count=2))] == [
        b"surely there",
        b"v",
    ]


def test_offsets_are_found_at_the_ends_and_by_time(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic)
    partition = TopicPartition(topic, 0)
    producer = Producer(blocking.client)
    for timestamp in (1000, 2000, 3000):
        blocking.run(producer.send(topic, [NewRecord(None, b"v", (), timestamp)]))

    def offset(timestamp: int) -> int:
        return blocking.run(find_offsets(blocking.client, {partition: timestamp}))[partition]

    assert (offset(EARLIEST), offset(LATEST), offset(MAX_TIMESTAMP)) == (0, 3, 2)
    assert (offset(1500), offset(2000), offset(3001)) == (1, 1, NO_OFFSET)


def test_a_partition_that_does_not_exist_has_no_offsets(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic)
    with pytest.raises(AnsweredError, match=f"{topic}-7: UNKNOWN_TOPIC_OR_PARTITION"):
        blocking.run(blocking.client.leaders([TopicPartition(topic, 7)]))


def test_records_can_be_deleted_up_to_an_offset(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic)
    partition = TopicPartition(topic, 0)
    for _ in range(3):
        blocking.run(Producer(blocking.client).send(topic, [NewRecord(None, b"v")]))
    assert blocking.run(delete_records(blocking.client, {partition: 2})) == {partition: 2}
    found = blocking.run(list_offsets(blocking.client, {partition: EARLIEST}))[partition]
    assert not isinstance(found, Refusal)
    assert found.offset == 2
    beyond = blocking.run(delete_records(blocking.client, {partition: 99}))[partition]
    assert beyond == Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)


def test_the_cluster_and_its_disks_describe_themselves(blocking: BlockingClient, topic: str) -> None:
    create(blocking, topic)
    blocking.run(Producer(blocking.client).send(topic, [NewRecord(None, b"v" * 1000)]))
    cluster = blocking.run(describe_cluster(blocking.client))
    assert cluster.brokers
    assert cluster.cluster_id == blocking.client.cluster.cluster_id
    partition = TopicPartition(topic, 0)
    (replica,) = blocking.run(replica_sizes(blocking.client, [partition]))[partition]
    assert replica.size > 1000
    assert replica.node_id == cluster.brokers[0].node_id


def test_records_after_an_unknown_outcome_are_not_taken_for_those_before(
    blocking: BlockingClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(blocking, topic)
    producer = Producer(blocking.client)

    async def send_and_lose_the_answer(*words: Any, **more: Any) -> None:
        await produce(*words, **more)
        raise NoAnswerError("the answer is lost")

    blocking.run(producer.send(topic, [NewRecord(None, b"one")]))
    with monkeypatch.context() as patch:
        patch.setattr("penstock.client.producer.produce", send_and_lose_the_answer)
        with pytest.raises(NoAnswerError):
            blocking.run(producer.send(topic, [NewRecord(None, b"two")]))
    blocking.run(producer.send(topic, [NewRecord(None, b"three")]))
    records = blocking.run(read(blocking.client, topic, count=3))
    assert [record.value for record in records] == [b"one", b"two", b"three"]
