"""librdkafka at a steady rate: each message carries the time at which it was handed over.

The producer is a process of its own, so that Python's threads do not wait for one another; the clock is the
machine's and the same for both.
"""

import multiprocessing
import struct
import time
from multiprocessing.synchronize import Event
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.rows import percentile

_STAMP = struct.Struct(">q")
_VALUE_BYTES = 100
_SETTLING_S = 1.0  # connections are made, first fetches wait: not counted
_SILENCE_MAX_S = 30
_PROCESSES = multiprocessing.get_context("spawn")


class Latencies(NamedTuple):
    """From handing a message to the producer until the consumer has it, in ms."""

    count: int
    p50: float
    p99: float
    p999: float


def measure_latency(
    bootstrap: str, topic: str, *, rate: int, seconds: float, until: Event | None = None
) -> Latencies:
    """Send `rate` messages a second to one partition for `seconds`, or until told, and read them as they come."""
    stop = until or _PROCESSES.Event()
    consumer = _tail_consumer(bootstrap, topic)
    sent = _PROCESSES.Value("q", -1)
    producer = _PROCESSES.Process(
        target=_produce_paced, args=(bootstrap, topic, rate, seconds + _SETTLING_S, stop, sent)
    )
    producer.start()
    try:
        found_ms = _collect(consumer, sent)
    finally:
        stop.set()
        producer.join(_SILENCE_MAX_S)
        if producer.is_alive():
            producer.kill()
        consumer.close()
    counted = sorted(found_ms[int(rate * _SETTLING_S) :])
    return Latencies(
        len(counted), percentile(counted, 0.5), percentile(counted, 0.99), percentile(counted, 0.999)
    )


def new_stop() -> Event:
    """For `until`."""
    return _PROCESSES.Event()


def _tail_consumer(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-tail",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def _collect(consumer: Consumer, sent: "multiprocessing.sharedctypes.Synchronized[int]") -> list[float]:
    """Latencies of all messages, in order; ends when the producer has said how many there were."""
    found_ms: list[float] = []
    heard_at = time.monotonic()
    while sent.value != len(found_ms):
        message = consumer.poll(0.2)
        if message is None:
            assert time.monotonic() - heard_at < _SILENCE_MAX_S, "the messages stopped coming"
            continue
        now_ns = time.monotonic_ns()
        assert message.error() is None, message.error()
        (stamp_ns,) = _STAMP.unpack_from(message.value())
        found_ms.append((now_ns - stamp_ns) / 1e6)
        heard_at = time.monotonic()
    return found_ms


def _produce_paced(
    bootstrap: str,
    topic: str,
    rate: int,
    seconds: float,
    stop: Event,
    sent: "multiprocessing.sharedctypes.Synchronized[int]",
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.list_topics(topic)
    padding = bytes(_VALUE_BYTES - _STAMP.size)
    count = 0
    started = time.monotonic()
    while count < rate * seconds and not (count % 100 == 0 and stop.is_set()):
        wait = started + count / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        producer.produce(topic, _STAMP.pack(time.monotonic_ns()) + padding, partition=0)
        producer.poll(0)
        count += 1
    assert producer.flush(_SILENCE_MAX_S) == 0, "messages were never acknowledged"
    sent.value = count
