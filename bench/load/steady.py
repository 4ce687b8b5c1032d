"""A process that sends a small record to every partition of a topic, again and again at even distances."""

import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event

from confluent_kafka import Producer

_VALUE_BYTES = 100
_PATIENCE_S = 30
_PROCESSES = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def steady_records(
    bootstrap: str, topic: str, *, partitions: int, every_s: float, value_bytes: int = _VALUE_BYTES
) -> Iterator[None]:
    """While this lasts, each partition gets a record every so many seconds."""
    stop = _PROCESSES.Event()
    producing = _PROCESSES.Process(
        target=_produce, args=(bootstrap, topic, partitions, every_s, bytes(value_bytes), stop)
    )
    producing.start()
    try:
        yield
    finally:
        stop.set()
        producing.join(_PATIENCE_S)
        if producing.is_alive():
            producing.kill()


def _produce(bootstrap: str, topic: str, partitions: int, every_s: float, value: bytes, stop: Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    due_s = time.monotonic()
    while not stop.wait(max(0.0, due_s - time.monotonic())):
        for partition in range(partitions):
            producer.produce(topic, value, partition=partition)
        producer.poll(0)
        due_s += every_s
    producer.flush(_PATIENCE_S)


def fill(bootstrap: str, topic: str, *, partitions: int) -> None:
    """One record in each partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        producer.produce(topic, bytes(_VALUE_BYTES), partition=partition)
    assert producer.flush(_PATIENCE_S) == 0, "records were never acknowledged"
