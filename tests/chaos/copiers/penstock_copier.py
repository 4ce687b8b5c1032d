"""Copies in transactions with Penstock's own client."""

import asyncio
import itertools
import signal
from collections import defaultdict
from collections.abc import Sequence

from penstock.base.errors import PenstockError
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.fetch import Fetched, FetchLimits, read_batches, read_fetched
from penstock.client.group_consumer import GroupConsumer
from penstock.client.group_offsets import GroupOffset
from penstock.client.membership import MemberSettings
from penstock.client.producer import NewRecord
from penstock.client.transactional_producer import TransactionalProducer
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop
from tests.chaos.copiers.orders import RECORDS_MAX, TRANSACTION_TIMEOUT_MS, Orders, work_s

LIMITS = FetchLimits(max_wait_ms=100, max_bytes=1 << 20, partition_max_bytes=1 << 16)


def records_of(
    fetched: Sequence[Fetched], positions: dict[TopicPartition, int]
) -> list[tuple[TopicPartition, int, bytes]]:
    found = (
        (each.partition, record.offset, bytes(record.value or b""))
        for each in fetched
        for header, batch in read_batches(each)
        for record in read_fetched(batch, header, from_offset=positions[each.partition])
    )
    return list(itertools.islice(found, RECORDS_MAX))


async def copy(orders: Orders, stopping: asyncio.Event) -> None:
    async with Client(RealLoop(), orders.bootstrap, entropy=RealEntropy()) as client:
        producer = TransactionalProducer(client, orders.name, timeout_ms=TRANSACTION_TIMEOUT_MS)
        await producer.start()
        settings = MemberSettings(orders.group, (orders.source,), instance_id=orders.name)
        consumer = await GroupConsumer.join(client, settings, limits=LIMITS, committed_only=True)
        while not stopping.is_set():
            records = records_of(await consumer.poll(), consumer.positions)
            if not records:
                continue
            offsets: dict[TopicPartition, int] = defaultdict(int)
            for partition, offset, _ in records:
                offsets[partition] = offset + 1
            producer.begin()
            copies = [NewRecord(None, value, partition=where.partition) for where, _, value in records]
            await producer.send(orders.sink, copies)
            await asyncio.sleep(work_s())
            read = {partition: GroupOffset(offset) for partition, offset in offsets.items()}
            await producer.send_offsets(orders.group, read, consumer.membership)
            await asyncio.sleep(work_s())
            await producer.commit()
            for partition, offset in offsets.items():
                consumer.advance(partition, offset)
        await consumer.close(commit=False)


async def main() -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    try:
        await copy(Orders.given(), stopping)
    except PenstockError as error:
        raise SystemExit(repr(error)) from None


if __name__ == "__main__":
    asyncio.run(main())
