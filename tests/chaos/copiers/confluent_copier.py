"""Copies in transactions with confluent-kafka."""

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.copiers.orders import (
    RECORDS_MAX,
    SESSION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    Orders,
    stopping_at_sigterm,
    work_s,
)

CALL_TIMEOUT_S = 30.0


class Copier:
    def __init__(self, orders: Orders) -> None:
        common: dict[str, Any] = {
            "bootstrap.servers": orders.bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self._sink = orders.sink
        self._producer = Producer(
            {
                **common,
                "transactional.id": orders.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                # With one broker librdkafka can wait forever for a coordinator once it has started all over.
                "metadata.recovery.strategy": "none",
            }
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": orders.group,
                "group.instance.id": orders.name,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 500,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        retried(lambda: self._producer.init_transactions(CALL_TIMEOUT_S))
        self._consumer.subscribe([orders.source])

    def step(self) -> None:
        polled = self._consumer.consume(RECORDS_MAX, 0.2)
        for message in polled:
            error = message.error()
            # Such as a fenced member: the broker died between a join and its being written down.
            if error is not None and error.code() == KafkaError._FATAL:
                raise KafkaException(error)
        messages = [message for message in polled if message.error() is None]
        if not messages:
            return
        self._producer.begin_transaction()
        try:
            self._copy(messages)
            time.sleep(work_s())
            retried(lambda: self._producer.commit_transaction(CALL_TIMEOUT_S))
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            retried(lambda: self._producer.abort_transaction(CALL_TIMEOUT_S))
            self._read_again(messages)

    def close(self) -> None:
        self._consumer.close()

    def _copy(self, messages: list[Message]) -> None:
        offsets: dict[int, TopicPartition] = {}
        for message in messages:
            self._producer.produce(self._sink, message.value(), partition=message.partition())
            after = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
            offsets[message.partition()] = after
        time.sleep(work_s())
        group = self._consumer.consumer_group_metadata()
        retried(
            lambda: self._producer.send_offsets_to_transaction(list(offsets.values()), group, CALL_TIMEOUT_S)
        )

    def _read_again(self, messages: list[Message]) -> None:
        first: dict[int, TopicPartition] = {}
        for message in messages:
            start = TopicPartition(message.topic(), message.partition(), message.offset())
            first.setdefault(message.partition(), start)
        mine = {each.partition for each in self._consumer.assignment()}
        for partition, start in first.items():
            if partition in mine:  # else its next owner reads it
                self._consumer.seek(start)


def retried(call: Callable[[], object]) -> None:
    while True:
        try:
            call()
            return
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise


def main() -> None:
    stopping = stopping_at_sigterm()
    copier = Copier(Orders.given())
    while not stopping.is_set():
        copier.step()
    copier.close()


if __name__ == "__main__":
    main()
