"""A back-off of minutes, tested in less than a second. Run it with `pytest examples/test_retries.py`.

`SimulatedCluster.run` replaces the clocks: what waits for minutes waits for minutes of the simulation.
"""

import asyncio
import itertools
import time

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from penstock.testing import SimulatedCluster


async def send_patiently(bootstrap_servers, topic, value, attempts):
    """The code under test: tries again after 1, 2, 4, … seconds, and at most two minutes between."""
    pause_s = 1
    while True:
        attempts.append(time.monotonic())
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
        try:
            await producer.start()
            return await producer.send_and_wait(topic, value)
        except KafkaError:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 120)
        finally:
            await producer.stop()


def test_the_back_off_grows_to_two_minutes_and_the_message_arrives():
    attempts = []
    with SimulatedCluster(seed=1) as cluster:

        async def story():
            cluster.broker.kill()
            cluster.after(600, cluster.broker.start)
            sent = await send_patiently(cluster.bootstrap_servers, "orders", b"important", attempts)
            assert sent.offset == 0

        cluster.run(story())

    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert [round(pause) for pause in pauses] == [1, 2, 4, 8, 16, 32, 64, 120, 120, 120, 120]
