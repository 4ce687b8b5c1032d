"""A member of several groups with confluent-kafka."""

import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.foreign.members.reporting import (
    HEARTBEAT_MS,
    NEW_PROTOCOL,
    POLL_S,
    SESSION_TIMEOUT_MS,
    Orders,
    Reports,
    stopping_at_sigterm,
)


def settings(orders: Orders, group: str, strategy: str) -> dict[str, Any]:
    common: dict[str, Any] = {
        "bootstrap.servers": orders.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 200,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }
    if strategy.startswith(NEW_PROTOCOL):
        assignor = strategy.removeprefix(NEW_PROTOCOL)
        return {**common, "group.protocol": "consumer", "group.remote.assignor": assignor}
    return {
        **common,
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }


class Member:
    def __init__(self, orders: Orders, group: str, strategy: str) -> None:
        self._reports = Reports(group)
        self._topic = orders.topic
        self._uncommitted: dict[int, int] = {}
        self._consumer = Consumer(settings(orders, group, strategy))

    def run(self, stopping: threading.Event) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        while not stopping.is_set():
            message = self._consumer.poll(POLL_S)
            if message is not None:
                self._take(message)
            self._commit()
        self._consumer.close()

    def _take(self, message: Message) -> None:
        if message.error():
            self._reports.trouble(message.error())
            return
        self._reports.read(message.partition(), message.offset(), message.value())
        self._uncommitted[message.partition()] = message.offset() + 1

    def _commit(self) -> None:
        if not self._uncommitted:
            return
        offsets = [TopicPartition(self._topic, *each) for each in self._uncommitted.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            self._reports.trouble(refused)  # in the middle of a rebalance, or no broker: comes again
        else:
            self._reports.committed(self._uncommitted)
            self._uncommitted.clear()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._reports.assigned(each.partition for each in partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._lost(consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._reports.revoked(each.partition for each in partitions)
        for each in partitions:
            self._uncommitted.pop(each.partition, None)


def main() -> None:
    orders = Orders.given()
    stopping = stopping_at_sigterm()
    members = [Member(orders, *each) for each in orders.groups.items()]
    threads = [threading.Thread(target=member.run, args=(stopping,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
