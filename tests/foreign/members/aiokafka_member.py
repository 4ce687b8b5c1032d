"""A member of several groups with aiokafka, which has no cooperative rebalancing and no new protocol."""

import asyncio
import signal
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from tests.foreign.members.reporting import HEARTBEAT_MS, POLL_S, SESSION_TIMEOUT_MS, Orders, Reports

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Member(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, orders: Orders, group: str, strategy: str) -> None:
        self._reports = Reports(group)
        self._topic = orders.topic
        self._uncommitted: dict[TopicPartition, int] = {}
        self._owned: set[TopicPartition] = set()
        self._committing = asyncio.Lock()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=orders.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=200,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=(ASSIGNORS[strategy],),
        )

    async def run(self, stopping: asyncio.Event) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()
        while not stopping.is_set():
            await self._take()
            await self._commit()
        await self._consumer.stop()
        self._reports.revoked(each.partition for each in self._owned)

    async def _take(self) -> None:
        try:
            polled = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=1)
        except KafkaError as error:
            self._reports.trouble(repr(error))
            return
        for partition, records in polled.items():
            # The client rebalances beside us: what it took away meanwhile is its next owner's.
            if partition in self._owned:
                for record in records:
                    self._reports.read(partition.partition, record.offset, record.value)
                    self._uncommitted[partition] = record.offset + 1

    async def _commit(self) -> None:
        async with self._committing:
            offsets = dict(self._uncommitted)
            if not offsets:
                return
            try:
                await self._consumer.commit(offsets)
            except KafkaError as refused:  # in the middle of a rebalance, or no broker: comes again
                self._reports.trouble(repr(refused))
            else:
                self._reports.committed({each.partition: offset for each, offset in offsets.items()})
                self._uncommitted = {
                    partition: offset
                    for partition, offset in self._uncommitted.items()
                    if offsets.get(partition) != offset
                }

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._commit()
        self._reports.revoked(each.partition for each in revoked)
        self._owned.clear()
        self._uncommitted.clear()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._owned = set(assigned)
        self._reports.assigned(each.partition for each in assigned)


async def main() -> None:
    orders = Orders.given()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await asyncio.gather(*(Member(orders, *each).run(stopping) for each in orders.groups.items()))


if __name__ == "__main__":
    asyncio.run(main())
