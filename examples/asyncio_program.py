"""A broker inside an asyncio program, on the same loop. Run it with `python examples/asyncio_program.py`."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from penstock.testing import EmbeddedBroker


async def main() -> list[bytes]:
    async with EmbeddedBroker() as broker:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for word in (b"one", b"two", b"three"):
                await producer.send_and_wait("words", word)

        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            partition = TopicPartition("words", 0)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            return [(await consumer.getone()).value for _ in range(3)]


if __name__ == "__main__":
    print(asyncio.run(main()))
