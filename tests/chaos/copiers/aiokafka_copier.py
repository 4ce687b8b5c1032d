"""Copies in transactions with aiokafka.

aiokafka sends no member id and generation with the offsets of a transaction, so a worker that has lost its partitions
would not be fenced. As was usual before KIP-447, each partition has a transactional id of its own: the worker that
takes the partition over takes the id, which fences the worker before.
"""

import asyncio
import signal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.chaos.copiers.orders import RECORDS_MAX, TRANSACTION_TIMEOUT_MS, Orders, work_s


async def copy(orders: Orders, stopping: asyncio.Event) -> None:
    partitions = [TopicPartition(orders.source, index) for index in orders.partitions]
    producer = AIOKafkaProducer(
        bootstrap_servers=orders.bootstrap,
        transactional_id=orders.name,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=orders.bootstrap,
        group_id=orders.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=100,
    )
    # The producer first: when it has started, what its predecessor committed can be read.
    await producer.start()
    await consumer.start()
    consumer.assign(partitions)
    while not stopping.is_set():
        polled = await consumer.getmany(*partitions, timeout_ms=200, max_records=RECORDS_MAX)
        if not polled:
            continue
        async with producer.transaction():
            for partition, records in polled.items():
                for record in records:
                    await producer.send(orders.sink, record.value, partition=partition.partition)
            await asyncio.sleep(work_s())
            offsets = {partition: records[-1].offset + 1 for partition, records in polled.items()}
            await producer.send_offsets_to_transaction(offsets, orders.group)
            await asyncio.sleep(work_s())
    await consumer.stop()
    await producer.stop()


async def main() -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    try:
        await copy(Orders.given(), stopping)
    except KafkaError as error:
        # Its end may be unknown, and with it where to go on: a new program begins at what is committed.
        raise SystemExit(repr(error)) from None


if __name__ == "__main__":
    asyncio.run(main())
