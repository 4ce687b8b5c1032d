"""Helpers for tests of several broker processes: topics, numbers that are sent and read, and waiting."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from peers.cluster import PenstockCluster
from peers.penstock import PenstockProcess
from penstock.base.errors import ErrorCode
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.raw_client import RawClient

REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

# A slow machine may need long; what takes so long has failed.
PATIENCE_S = 90
_ANSWER_S = 5
_FILL_BYTES = 500_000


def until(look: Callable[[], object]) -> None:
    """Wait for something that other processes do: nothing here could be told."""
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def metadata(admin: AdminClient, topic: str | None = None) -> ClusterMetadata:
    """What a living broker answers.

    A question whose broker dies with it is asked of the same broker again by librdkafka, which then waits
    for its return however many others live. So each question waits for a short time only.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return admin.list_topics(topic, timeout=_ANSWER_S)
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def metadata_at(broker: PenstockProcess) -> ClusterMetadata:
    return metadata(AdminClient({"bootstrap.servers": broker.bootstrap}))


def create(admin: AdminClient, topic: str, *, partitions: int = 1, replicas: int = 3, **configs: str) -> None:
    """A topic that every broker has heard of: the controller answers when it has, and metadata come from anybody."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions, replicas, config=settings)])[topic].result(PATIENCE_S)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    for broker in metadata(admin).brokers.values():
        # Who has just died may still be named, and knows nothing.
        with contextlib.suppress(OSError), RawClient(f"{broker.host}:{broker.port}") as raw:
            until(lambda at=raw: at.ask(asked, 12).topics[0].error_code == ErrorCode.NONE)


def leader(admin: AdminClient, topic: str, partition: int = 0) -> int:
    found = metadata(admin, topic).topics[topic].partitions.get(partition)
    return -1 if found is None else int(found.leader)


def isr(admin: AdminClient, topic: str, partition: int = 0) -> set[int]:
    return set(metadata(admin, topic).topics[topic].partitions[partition].isrs)


def topic_config(admin: AdminClient, topic: str, name: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    return str(admin.describe_configs([resource])[resource].result(PATIENCE_S)[name].value)


def change_topic_config(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def change_broker_config(admin: AdminClient, node_id: int, name: str, value: str) -> None:
    """Set a config of one broker."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id), incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


class Writer:
    """Sends numbers, and knows which were acknowledged."""

    def __init__(self, cluster: PenstockCluster, topic: str, **settings: object) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 1, **settings}
        )
        self._topic = topic
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.errors: list[KafkaError] = []

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(self._topic, str(self.sent), on_delivery=self._heard)
            self.sent += 1
            self._producer.poll(0)

    def fill(self, size: int) -> None:
        """Send so many bytes behind what was sent, and wait until they are there."""
        for _ in range(0, size, _FILL_BYTES):
            self._producer.produce(self._topic, bytes(_FILL_BYTES))
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged.add(int(message.value() or b""))


def read_all(cluster: PenstockCluster, topic: str, expected: int, *, partition: int = 0) -> Counter[int]:
    """How often each number is in a partition; reads until so many are there."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    seen: Counter[int] = Counter()
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < expected and time.monotonic() < deadline:
        for message in consumer.consume(500, timeout=0.5):
            if message.error() is None:
                seen[int(message.value() or b"")] += 1
    consumer.close()
    return seen


def watermarks(cluster: PenstockCluster, topic: str) -> tuple[int, int]:
    """Where the log of partition 0 starts, and up to where it is committed, as its leader says when there is one."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "watermarks"})
    found: list[tuple[int, int]] = []

    def look() -> bool:
        try:
            found.append(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_ANSWER_S))
        except KafkaException:
            return False
        return True

    until(look)
    consumer.close()
    return found[0]
