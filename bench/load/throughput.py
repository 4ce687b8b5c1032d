"""librdkafka at full speed: as many messages as it can send, and as many as it can read."""

import random
import time
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

_VALUES = 1000
_MESSAGES_PER_CALL = 1000
_READ_AT_ONCE = 10_000
_SILENCE_MAX_S = 60
_QUEUED_MESSAGES_MAX = 300_000
_QUEUED_BYTES_MAX = 128_000_000
_WORDS = ("order", "item", "price", "customer", "street", "city", "paid", "open", "shipped", "euro", "late")


class Case(NamedTuple):
    """What is sent: so many messages of a size, under a codec, to so many partitions."""

    value_bytes: int
    codec: str
    partitions: int
    message_count: int

    @property
    def total_bytes(self) -> int:
        return self.value_bytes * self.message_count


class Flow(NamedTuple):
    """How long it took, and what the client itself used for it."""

    seconds: float
    client_cpu_seconds: float


class SilenceError(Exception):
    """Nothing came for a long time."""


def values(size: int) -> list[bytes]:
    """Different values that compress about as well as text does; the same ones every time."""
    chance = random.Random(size)
    texts = []
    for _ in range(_VALUES):
        words = [f"{chance.choice(_WORDS)} {chance.randrange(100_000)}" for _ in range(size // 8 + 1)]
        texts.append(" ".join(words).encode()[:size])
    return texts


def produce(bootstrap: str, topic: str, case: Case) -> Flow:
    """Send all messages, evenly to all partitions, and wait until the last one is acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": case.codec,
            "linger.ms": 5,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    producer.list_topics(topic)  # connected, and the topic known, before the clock runs
    queued_max = min(_QUEUED_MESSAGES_MAX, _QUEUED_BYTES_MAX // case.value_bytes)
    messages = [{"value": value} for value in values(case.value_bytes)[:_MESSAGES_PER_CALL]]
    cpu_before = time.process_time()
    started = time.perf_counter()
    sent = 0
    partition = 0
    while sent < case.message_count:
        chunk = messages[: case.message_count - sent]
        taken = producer.produce_batch(topic, chunk, partition=partition)
        assert taken == len(chunk), "librdkafka's queue is larger than what is put into it"
        sent += taken
        partition = (partition + 1) % case.partitions
        while len(producer) > queued_max:
            producer.poll(0.002)
    left = producer.flush(_SILENCE_MAX_S)
    finished = time.perf_counter()
    if left:
        raise SilenceError(f"{left} messages were never acknowledged")
    return Flow(finished - started, time.process_time() - cpu_before)


def consume(bootstrap: str, topic: str, case: Case) -> Flow:
    """Read everything from the beginning."""
    consumer = new_consumer(bootstrap)
    consumer.list_topics(topic)
    cpu_before = time.process_time()
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, index, 0) for index in range(case.partitions)])
    finished = read_count(consumer, case.message_count)
    flow = Flow(finished - started, time.process_time() - cpu_before)
    consumer.close()
    return flow


def new_consumer(bootstrap: str) -> Consumer:
    """With its defaults, librdkafka's own pauses are what one measures."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 2_000_000,
            "queued.max.messages.kbytes": 1_000_000,
            "fetch.queue.backoff.ms": 5,
        }
    )


def read_count(consumer: Consumer, count: int) -> float:
    """Read `count` messages; when the last one was there."""
    read = 0
    heard_at = time.perf_counter()
    while read < count:
        # Not more than are left: the call waits until it has as many as it was asked for.
        messages = consumer.consume(min(_READ_AT_ONCE, count - read), 1.0)
        now = time.perf_counter()
        for message in messages[:1]:
            assert message.error() is None, message.error()
        if messages:
            read += len(messages)
            heard_at = now
        elif now - heard_at > _SILENCE_MAX_S:
            raise SilenceError(f"{count - read} messages did not come")
    return heard_at
