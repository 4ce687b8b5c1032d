"""A consumer's retry logic through a crash of its broker. Run it with `pytest examples/test_broker_crash.py`.

The broker, the network and the clock are simulated: the five minutes take a fraction of a second.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from penstock.testing import SimulatedCluster

PAYMENTS = TopicPartition("payments", 0)


async def handle_payments(bootstrap_servers, handle):
    """The code under test: reads on where it was, whatever becomes of the broker."""
    position = 0
    while True:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, retry_backoff_ms=2000)
        try:
            await consumer.start()
            consumer.assign([PAYMENTS])
            consumer.seek(PAYMENTS, position)
            async for payment in consumer:
                handle(payment.value)
                position = payment.offset + 1
        except KafkaError:
            await asyncio.sleep(5)
        finally:
            await consumer.stop()


async def pay(bootstrap_servers, *amounts):
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for amount in amounts:
            await producer.send_and_wait("payments", amount)


def test_every_payment_is_handled_once_though_the_broker_crashes():
    handled = []
    with SimulatedCluster(seed=1) as cluster:

        async def story():
            await pay(cluster.bootstrap_servers, b"10", b"20")
            handling = asyncio.create_task(handle_payments(cluster.bootstrap_servers, handled.append))
            await asyncio.sleep(10)
            assert handled == [b"10", b"20"]

            cluster.broker.kill()
            await asyncio.sleep(300)  # of the simulation
            await cluster.broker.start()

            await pay(cluster.bootstrap_servers, b"30")
            await asyncio.sleep(20)
            handling.cancel()
            await asyncio.wait([handling])

        cluster.run(story())
    assert handled == [b"10", b"20", b"30"]
