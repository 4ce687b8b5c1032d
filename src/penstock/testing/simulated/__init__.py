"""Your asyncio code against a real broker in a simulated world: hours pass in no time, and things fail when told to.

    def test_a_consumer_survives_a_crash():
        with SimulatedCluster(seed=1) as cluster:

            async def story():
                async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                    await producer.send_and_wait("orders", b"one")
                    cluster.broker.kill()
                    cluster.after(300, cluster.broker.start)      # seconds, of the simulation
                    await producer.send_and_wait("orders", b"two")

            cluster.run(story())

The broker is the one that `penstock serve` runs, its code unchanged; network, disk and time are simulated. A seed is a
history: delays, the order in which things happen and what a power cut leaves are the same each time it runs.

Inside `run` the clocks of `time`, `random` and `os.urandom` are the simulation's, for the calling thread: aiokafka
and other asyncio libraries work as they are. What has threads of its own does not: for confluent-kafka there is
`EmbeddedBroker` with its faults in real time. `datetime.now()` cannot be replaced and shows the real date; and a
library that walks through sets of strings does so in another order in another process, unless PYTHONHASHSEED is set.
"""

from penstock.testing.simulated.broker import SimulatedBroker
from penstock.testing.simulated.cluster import SimulatedCluster
from penstock.testing.simulated.network import SimulatedNetwork

__all__ = ["SimulatedBroker", "SimulatedCluster", "SimulatedNetwork"]
