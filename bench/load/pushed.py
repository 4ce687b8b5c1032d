"""A leader that is given so many bytes a second with acks=1, and how far its followers are behind meanwhile.

What the producer has acknowledged, the leader has; the high watermark says what all followers have that are in sync.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.load.throughput import values
from bench.usage import Usage

_VALUE_BYTES = 8 * 1024  # few enough records that hearing of each costs the client little
_AT_ONCE = 64
_QUEUED_MAX = 4_000
_LOOK_S = 0.2
_PATIENCE_S = 60.0


class Pushed(NamedTuple):
    """How it went, on the whole."""

    total_bytes: int
    bytes_per_second: float
    behind_bytes_max: int
    behind_seconds: float  # after the last acknowledgement, until the followers had all of it
    cpu_seconds: float  # of all brokers


class _Behind:
    """How far followers are behind, as one can see from outside."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "bench-behind", "log_level": 0}
        )
        self._partitions = [TopicPartition(topic, index) for index in range(partitions)]
        self.acknowledged = [0] * partitions

    def heard(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset, partition = message.offset(), message.partition()
        assert offset is not None
        assert partition is not None
        self.acknowledged[partition] = max(self.acknowledged[partition], offset + 1)

    def records(self) -> int:
        acknowledged = list(self.acknowledged)  # before looking: what comes meanwhile does not count
        return sum(
            max(0, count - self._consumer.get_watermark_offsets(partition, timeout=10)[1])
            for count, partition in zip(acknowledged, self._partitions, strict=True)
        )

    def close(self) -> None:
        self._consumer.close()


def push(
    bootstrap: str,
    topic: str,
    usages: Sequence[Usage],
    *,
    partitions: int,
    bytes_per_second: float,
    seconds: float,
) -> Pushed:
    """Send for so long, evenly to all partitions, no faster than that; return when followers have everything."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 256_000,
        }
    )
    behind = _Behind(bootstrap, topic, partitions)
    cpu_before = sum(usage.cpu_seconds() for usage in usages)
    rate, behind_max = _send(producer, topic, behind, bytes_per_second=bytes_per_second, seconds=seconds)
    behind_seconds = _catch_up(behind)
    cpu_seconds = sum(usage.cpu_seconds() for usage in usages) - cpu_before
    behind.close()
    total_bytes = sum(behind.acknowledged) * _VALUE_BYTES
    return Pushed(total_bytes, rate, behind_max * _VALUE_BYTES, behind_seconds, cpu_seconds)


def _send(
    producer: Producer, topic: str, behind: _Behind, *, bytes_per_second: float, seconds: float
) -> tuple[float, int]:
    """The rate at which it was taken, and by how many records followers were behind at most."""
    messages = [{"value": value} for value in values(_VALUE_BYTES)[:_AT_ONCE]]
    partitions = len(behind.acknowledged)
    producer.list_topics(topic)
    began_s = looked_s = time.monotonic()
    calls, behind_max = 0, 0
    while time.monotonic() - began_s < seconds:
        producer.produce_batch(topic, messages, partition=calls % partitions, on_delivery=behind.heard)
        calls += 1
        while len(producer) > _QUEUED_MAX:
            producer.poll(0.01)
        due_s = began_s + calls * _AT_ONCE * _VALUE_BYTES / bytes_per_second
        producer.poll(max(0.0, due_s - time.monotonic()))
        if time.monotonic() - looked_s > _LOOK_S:
            looked_s = time.monotonic()
            behind_max = max(behind_max, behind.records())
    assert producer.flush(_PATIENCE_S) == 0, "records were never acknowledged"
    taken_bytes = sum(behind.acknowledged) * _VALUE_BYTES
    return taken_bytes / (time.monotonic() - began_s), behind_max


def _catch_up(behind: _Behind) -> float:
    began_s = time.monotonic()
    while behind.records():
        assert time.monotonic() - began_s < _PATIENCE_S, "the followers do not get there"
    return time.monotonic() - began_s
