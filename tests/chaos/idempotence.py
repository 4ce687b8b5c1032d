"""Producers that send again because answers to Produce are lost: what lies in the topic at the end.

Each sends one record after the other, so that every lost answer is a record that is sent once more.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from peers.penstock import PenstockProcess
from tests.chaos.lossy_proxy import LossyProxy
from tests.chaos.reading import PATIENCE_S, committed_values, create_topics

PRODUCE = 0
RECORDS = 30
LOSES_EVERY = 5  # so that some are lost in each run, by whatever the clients do
RETRY_BACKOFF_MS = 20

SendAll = Callable[[str, str, list[bytes], bool], None]


def send_with_confluent(bootstrap: str, topic: str, values: list[bytes], idempotent: bool) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": idempotent,
            "acks": "all",
            "linger.ms": 0,
            "retry.backoff.ms": RETRY_BACKOFF_MS,
            "reconnect.backoff.ms": RETRY_BACKOFF_MS,
            "reconnect.backoff.max.ms": RETRY_BACKOFF_MS,
            "log_level": 0,
        }
    )
    for value in values:
        producer.produce(topic, value, partition=0)
        assert producer.flush(PATIENCE_S) == 0


def send_with_aiokafka(bootstrap: str, topic: str, values: list[bytes], idempotent: bool) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=idempotent,
            acks="all",
            retry_backoff_ms=RETRY_BACKOFF_MS,
        ) as producer:
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))


def send_with_kafka_python(bootstrap: str, topic: str, values: list[bytes], idempotent: bool) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "enable_idempotence": idempotent,
        "acks": "all",
        "retries": 1000,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "reconnect_backoff_ms": RETRY_BACKOFF_MS,
        "reconnect_backoff_max_ms": RETRY_BACKOFF_MS,
    }
    producer = KafkaProducer(**settings)
    try:
        for value in values:
            producer.send(topic, value, partition=0).get(PATIENCE_S)
    finally:
        producer.close(timeout=PATIENCE_S)


SENDERS: dict[str, SendAll] = {
    "confluent": send_with_confluent,
    "aiokafka": send_with_aiokafka,
    "kafka-python": send_with_kafka_python,
}


@contextlib.contextmanager
def lossy_broker() -> Iterator[LossyProxy]:
    """A broker, seen through a proxy that loses some of its answers to Produce."""
    answers = itertools.count(1)
    with (
        LossyProxy(lambda key: key == PRODUCE and next(answers) % LOSES_EVERY == 0) as proxy,
        PenstockProcess(settings=proxy.advertised, listen=proxy.target),
    ):
        yield proxy


def sent_through_losses(
    proxy: LossyProxy, client: str, *, idempotent: bool
) -> tuple[list[bytes], list[bytes], int]:
    """What was to be sent, what the topic holds, and how many answers were lost."""
    topic = f"{client}-{'idempotent' if idempotent else 'plain'}"
    create_topics(proxy.address, topic, partitions=1)
    values = [b"%d" % number for number in range(RECORDS)]
    lost_before = proxy.lost[PRODUCE]
    SENDERS[client](proxy.address, topic, values, idempotent)
    lost = proxy.lost[PRODUCE] - lost_before
    return values, committed_values(proxy.address, topic, partitions=1)[0], lost
