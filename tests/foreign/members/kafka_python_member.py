"""A member of several groups with kafka-python, which has no new protocol."""

import threading
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.foreign.members.reporting import (
    HEARTBEAT_MS,
    POLL_S,
    SESSION_TIMEOUT_MS,
    Orders,
    Reports,
    stopping_at_sigterm,
)

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Member(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, orders: Orders, group: str, strategy: str) -> None:
        self._reports = Reports(group)
        self._topic = orders.topic
        self._uncommitted: dict[TopicPartition, int] = {}
        self._consumer = KafkaConsumer(
            bootstrap_servers=orders.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=200,
            reconnect_backoff_max_ms=500,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[ASSIGNORS[strategy]],
        )

    def run(self, stopping: threading.Event) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        while not stopping.is_set():
            self._take()
            self._commit()
        self._consumer.close()

    def _take(self) -> None:
        try:
            polled = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=1)
        except KafkaError as error:  # this client raises where others wait for a broker that is away
            self._reports.trouble(repr(error))
            return
        for partition, records in polled.items():
            for record in records:
                self._reports.read(partition.partition, record.offset, record.value)
                self._uncommitted[partition] = record.offset + 1

    def _commit(self) -> None:
        if not self._uncommitted:
            return
        offsets = {each: OffsetAndMetadata(offset, "", -1) for each, offset in self._uncommitted.items()}
        try:
            self._consumer.commit(offsets)
        except KafkaError as refused:
            self._reports.trouble(repr(refused))  # in the middle of a rebalance, or no broker: comes again
        else:
            self._reports.committed({each.partition: offset for each, offset in self._uncommitted.items()})
            self._uncommitted.clear()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        # Nothing is committed here: the client's own thread calls, and would wait for itself.
        self._reports.revoked(each.partition for each in revoked)
        for each in revoked:
            self._uncommitted.pop(each, None)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._reports.assigned(each.partition for each in assigned)


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
