"""What the clients can do with groups beyond reading in them: regular expressions, static members, a change of
protocol under way, different clients in one group, and administration."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

from peers.brokers import Broker
from tests.foreign.members.crew import Crew, python_program

pytestmark = pytest.mark.foreign

PATIENCE_S = 60
PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def create(admin: AdminClient, topic: str, *, partitions: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)


def pour(broker: Broker, topic: str, values: list[str], *, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


class Member:
    """A consumer of confluent-kafka that remembers what it was given and what was taken from it."""

    def __init__(self, broker: Broker, group: str, *topics: str, protocol: str, **settings: Any) -> None:
        self.taken: list[int] = []
        self.values: list[str] = []
        self.errors: list[int] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.consumer.subscribe(list(topics), on_revoke=self._taken)

    @property
    def owned(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def _taken(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.taken += [each.partition for each in partitions]

    def poll(self) -> None:
        message = self.consumer.poll(0.1)
        if message is None:
            return
        if message.error():
            self.errors.append(message.error().code())
        else:
            self.values.append(message.value().decode())


@pytest.fixture
def members(broker: Broker) -> Iterator[Callable[..., Member]]:
    """Makes members that are gone after the test."""
    made: list[Member] = []

    def member(*names: str, **settings: Any) -> Member:
        made.append(Member(broker, *names, **settings))
        return made[-1]

    yield member
    for each in made:
        with contextlib.suppress(RuntimeError):  # closed in the test
            each.consumer.close()


def poll_until(happened: Callable[[], bool], *members: Member) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s, [(each.owned, each.errors) for each in members]
        for member in members:
            member.poll()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_regular_expression_finds_topics_that_come_later(
    broker: Broker, admin: AdminClient, members: Callable[..., Member], topic: str, protocol: str
) -> None:
    create(admin, f"{topic}-a", partitions=1)
    create(admin, f"not-{topic}", partitions=1)
    member = members(topic, f"^{topic}-[a-c]", protocol=protocol)
    poll_until(lambda: member.owned == {(f"{topic}-a", 0)}, member)
    create(admin, f"{topic}-b", partitions=1)
    create(admin, f"{topic}-d", partitions=1)
    poll_until(lambda: member.owned == {(f"{topic}-a", 0), (f"{topic}-b", 0)}, member)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_that_returns_keeps_its_partitions_without_a_rebalance(
    broker: Broker, admin: AdminClient, members: Callable[..., Member], topic: str, protocol: str
) -> None:
    create(admin, topic, partitions=4)
    one = members(topic, topic, protocol=protocol, group_instance_id="one")
    other = members(topic, topic, protocol=protocol, group_instance_id="other")
    poll_until(lambda: len(one.owned) == len(other.owned) == 2, one, other)
    owned, taken = one.owned, list(other.taken)
    one.consumer.close()
    again = members(topic, topic, protocol=protocol, group_instance_id="one")
    poll_until(lambda: again.owned == owned, again, other)
    assert other.taken == taken
    pour(broker, topic, [str(number) for number in range(8)], partitions=4)
    poll_until(lambda: len(again.values) == len(other.values) == 4, again, other)


def test_a_static_member_that_was_replaced_is_fenced(
    admin: AdminClient, members: Callable[..., Member], topic: str
) -> None:
    create(admin, topic, partitions=1)
    one = members(topic, topic, protocol="classic", group_instance_id="one")
    poll_until(lambda: bool(one.owned), one)
    again = members(topic, topic, protocol="classic", group_instance_id="one")
    poll_until(lambda: bool(again.owned) and bool(one.errors), one, again)
    assert one.errors[0] == KafkaError._FATAL
    with pytest.raises(KafkaException) as fenced:
        one.consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert fenced.value.args[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def test_a_static_member_of_the_new_protocol_cannot_be_replaced_while_it_lives(
    admin: AdminClient, members: Callable[..., Member], topic: str
) -> None:
    create(admin, topic, partitions=1)
    one = members(topic, topic, protocol="consumer", group_instance_id="one")
    poll_until(lambda: bool(one.owned), one)
    again = members(topic, topic, protocol="consumer", group_instance_id="one")
    poll_until(lambda: bool(again.errors), one, again)
    assert one.owned == {(topic, 0)}
    assert not again.owned


def described(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group])[group].result(PATIENCE_S)


def test_a_live_group_moves_to_the_new_protocol_and_back(
    broker: Broker, admin: AdminClient, members: Callable[..., Member], topic: str
) -> None:
    create(admin, topic, partitions=4)
    classic = members(topic, topic, protocol="classic")
    poll_until(lambda: len(classic.owned) == 4, classic)
    assert described(admin, topic).type == ConsumerGroupType.CLASSIC

    modern = members(topic, topic, protocol="consumer")
    poll_until(lambda: len(classic.owned) == len(modern.owned) == 2, classic, modern)
    assert described(admin, topic).type == ConsumerGroupType.CONSUMER
    pour(broker, topic, [str(number) for number in range(8)], partitions=4)
    poll_until(lambda: len(classic.values) == len(modern.values) == 4, classic, modern)

    modern.consumer.close()
    poll_until(lambda: len(classic.owned) == 4, classic)
    assert described(admin, topic).type == ConsumerGroupType.CLASSIC
    pour(broker, topic, ["8", "9", "10", "11"], partitions=4)
    poll_until(lambda: len(classic.values) == 8, classic)
    assert sorted(map(int, classic.values + modern.values)) == list(range(12))


def test_different_clients_are_members_of_one_group(broker: Broker, admin: AdminClient, topic: str) -> None:
    create(admin, topic, partitions=6)
    values = [str(number) for number in range(60)]
    confluent = python_program("confluent_member")
    with Crew("mixed", confluent, ["range", "roundrobin"], bootstrap=broker.bootstrap, topic=topic) as crew:
        crew.start("confluent")
        crew.start("aiokafka", python_program("aiokafka_member"))
        crew.start("kafka-python", python_program("kafka_python_member"))
        crew.wait_until_each_owns(2)
        pour(broker, topic, values, partitions=6)
        crew.wait_until_read(set(values))
        for name in crew.members:
            crew.ask_to_leave(name)
        for name in crew.members:
            crew.wait_until_left(name)
        assert [ledger.faults() for ledger in crew.ledgers.values()] == [[], []]


@pytest.fixture
def committed(broker: Broker, admin: AdminClient, topic: str) -> str:
    """A group that has the topic's name, has read three records of each of its two partitions, and is empty."""
    create(admin, topic, partitions=2)
    pour(broker, topic, [str(number) for number in range(8)], partitions=2)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": topic}
    with contextlib.closing(Consumer(settings)) as outsider:
        offsets = [TopicPartition(topic, partition, 3) for partition in (0, 1)]
        outsider.commit(offsets=offsets, asynchronous=False)
    return topic


def test_confluents_admin_lists_describes_changes_and_deletes(
    broker: Broker, admin: AdminClient, committed: str
) -> None:
    listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(PATIENCE_S).valid
    assert committed in [each.group_id for each in listed]
    shown = described(admin, committed)
    assert (shown.state, shown.members) == (ConsumerGroupState.EMPTY, [])

    moved = ConsumerGroupTopicPartitions(committed, [TopicPartition(committed, 0, 1)])
    admin.alter_consumer_group_offsets([moved])[committed].result(PATIENCE_S)
    asked = ConsumerGroupTopicPartitions(committed, [TopicPartition(committed, p) for p in (0, 1)])
    found = admin.list_consumer_group_offsets([asked])[committed].result(PATIENCE_S)
    assert [each.offset for each in found.topic_partitions] == [1, 3]

    admin.delete_consumer_groups([committed])[committed].result(PATIENCE_S)
    listed = admin.list_consumer_groups().result(PATIENCE_S).valid
    assert committed not in [each.group_id for each in listed]


def test_kafka_pythons_admin_lists_describes_changes_and_deletes(broker: Broker, committed: str) -> None:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        assert committed in [each["group_id"] for each in admin.list_groups()]
        assert admin.describe_groups([committed])[committed]["group_state"] == "Empty"
        first, second = (PythonPartition(committed, partition) for partition in (0, 1))
        admin.alter_group_offsets(committed, {first: OffsetAndMetadata(1, "", -1)})
        offsets = admin.list_group_offsets({committed: None})[committed]
        assert {each: offset.offset for each, offset in offsets.items()} == {first: 1, second: 3}
        admin.delete_groups([committed])
        assert committed not in [each["group_id"] for each in admin.list_groups()]


async def _asked_by_aiokafka(broker: Broker, group: str) -> tuple[list[str], dict[int, int]]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        groups = [name for name, _ in await admin.list_consumer_groups()]
        offsets = await admin.list_consumer_group_offsets(group)
        return groups, {each.partition: offset.offset for each, offset in offsets.items()}
    finally:
        await admin.close()


def test_aiokafkas_admin_lists_groups_and_their_offsets(broker: Broker, committed: str) -> None:
    groups, offsets = asyncio.run(_asked_by_aiokafka(broker, committed))
    assert committed in groups
    assert offsets == {0: 3, 1: 3}
