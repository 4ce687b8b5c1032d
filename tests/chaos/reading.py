"""Topics read from begin to end by a consumer with read_committed."""

import contextlib
import time
from collections import defaultdict

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_S = 60.0


def create_topics(bootstrap: str, *names: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(name, partitions, 1) for name in names])
    for name in names:
        created[name].result(PATIENCE_S)


def committed_values(bootstrap: str, topic: str, *, partitions: int) -> dict[int, list[bytes]]:
    """What each partition holds up to its end, which lies where no transaction is open any more."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "outsider",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    values: dict[int, list[bytes]] = defaultdict(list)
    with contextlib.closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        unread = set(range(partitions))
        deadline_s = time.monotonic() + PATIENCE_S
        while unread:
            assert time.monotonic() < deadline_s, f"{topic}: the end of {unread} is not in sight"
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    values[message.partition()].append(message.value())
                    continue
                if error.name() != "_PARTITION_EOF" and not error.retriable():
                    raise KafkaException(error)
                if error.name() == "_PARTITION_EOF":
                    unread.discard(message.partition())
    return values
