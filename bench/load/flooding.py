"""As much as brokers take, with acks=all, evenly to all partitions: how many bytes a second are acknowledged."""

import time

from confluent_kafka import KafkaError, Message, Producer

_VALUE = bytes(8 * 1024)
_SETTLING_S = 2.0  # queues fill up: not counted


def flood(bootstrap: str, topic: str, *, partitions: int, seconds: float) -> float:
    """Bytes a second. What is in flight in the end is dropped."""
    acknowledged: list[float] = []

    def heard(error: KafkaError | None, _message: Message) -> None:
        if error is None:
            acknowledged.append(time.monotonic())

    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
    )
    producer.list_topics(topic)
    began_s = time.monotonic() + _SETTLING_S
    ended_s = began_s + seconds
    sent = 0
    while time.monotonic() < ended_s:
        if len(producer) < 32 * partitions:
            producer.produce(topic, _VALUE, partition=sent % partitions, on_delivery=heard)
            sent += 1
            producer.poll(0)
        else:
            producer.poll(0.01)
    producer.purge()
    producer.flush(30)
    count = sum(began_s <= when < ended_s for when in acknowledged)
    return count * len(_VALUE) / seconds


def fill(bootstrap: str, topic: str, *, partitions: int, total_bytes: int) -> None:
    """So many bytes, evenly, all acknowledged."""
    refused: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(total_bytes // len(_VALUE)):
        producer.produce(
            topic,
            _VALUE,
            partition=number % partitions,
            on_delivery=lambda error, _: None if error is None else refused.append(error),
        )
        while len(producer) > 10_000:
            producer.poll(0.01)
    assert producer.flush(120) == 0, "records were never acknowledged"
    assert not refused, refused[0]
