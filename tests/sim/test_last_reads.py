"""Reading when all is over: a cluster that still moves leaders is read all the same."""

import asyncio
from collections.abc import Iterable

from penstock.base.ids import TopicPartition, format_id
from penstock.client.client import Client
from penstock.client.cluster import KnownTopic
from penstock.client.fetch import read_batches, read_fetched
from penstock.client.topics import NewTopic, create_topics
from penstock.sim import Simulation
from penstock.sim.shared_store import SharedStore
from penstock.sim.workload.final_fetch import final_fetch
from penstock.sim.workload.final_reader import FinalReader
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.tracking_client import TrackingClient
from tests.sim.stories import PATIENCE_S, PATIENT, as_client, send

TOPIC = "orders"


def test_a_leader_that_has_changed_since_is_looked_up_again() -> None:
    with Simulation(1) as simulation:
        store = SharedStore(simulation, session_timeout_ms=60_000)
        someone = simulation.new_outsider("client-1")
        nodes = [
            simulation.new_node(node_id, settings={}, make_store=store.opener(node_id))
            for node_id in (1, 2, 3)
        ]

        async def led_by(leader: int, *, isr: set[int]) -> None:
            while True:
                topic = store.topic(TOPIC)
                assert topic is not None
                (state,) = topic.partitions
                if (state.leader, set(state.isr)) == (leader, isr):
                    return
                await asyncio.sleep(0.05)

        async def chore(client: Client) -> list[bytes | None]:
            await create_topics(client, [NewTopic(TOPIC, assignments={0: (1, 2)})])
            await send(client, TOPIC, b"one")  # the client knows who leads now
            await nodes[0].stop()
            await led_by(2, isr={2})
            await nodes[0].start()
            await led_by(2, isr={1, 2})
            fetched = await final_fetch(client, TopicPartition(TOPIC, 0), 0)
            assert fetched.refusal is None
            return [
                record.value
                for header, batch in read_batches(fetched)
                for record in read_fetched(batch, header, from_offset=0)
            ]

        async def story() -> list[bytes | None]:
            for node in nodes:
                await node.start()
            while len(store.brokers()) < len(nodes) or any(each.fenced for each in store.brokers().values()):
                await asyncio.sleep(0.05)
            return await as_client(simulation, someone, nodes[2], chore)

        assert simulation.run(story(), seconds_max=PATIENCE_S) == [b"one"]
        assert simulation.kernel.problems == []


class ForgettingClient(TrackingClient):
    """Learns right after every listing that something in it was wrong."""

    async def refresh(self, topics: Iterable[str] | None = (), *, create: bool = False) -> list[KnownTopic]:
        found = await super().refresh(topics, create=create)
        if topics is None:
            self.cluster.forget()
        return found


def test_a_log_is_known_by_its_topics_id_when_the_client_has_forgotten_all_topics() -> None:
    with Simulation(1) as simulation:
        node = simulation.new_node(1)
        someone = simulation.new_outsider("client-1")
        journal = Journal()

        async def talk() -> str:
            async with ForgettingClient(
                someone.loop, node.address, entropy=someone.entropy, settings=PATIENT
            ) as client:
                await create_topics(client, [NewTopic(TOPIC, partitions=1)])
                topic_id = format_id((await client.topic(TOPIC)).topic_id)
                await FinalReader(client, journal).read_all()
                return topic_id

        async def story() -> str:
            await node.start()
            return await simulation.loop.spawn(someone.process, talk())

        topic_id = simulation.run(story(), seconds_max=PATIENCE_S)
        (read,) = journal.history.final_reads
        assert read.log == (TOPIC, topic_id, 0)
