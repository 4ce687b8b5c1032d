"""A consumer that follows a topic waits for its broker as long as it takes; others give up when their time is over."""

import asyncio

import pytest

from penstock.base.ids import TopicPartition
from penstock.client.client import Client, ClientSettings
from penstock.client.errors import ClientError
from penstock.client.fetch import Fetched
from penstock.client.fetcher import Fetcher
from penstock.sim import Simulation
from tests.sim.stories import PATIENCE_S, as_client, make_topic, send

TOPIC = "orders"
DOWN_S = 120.0
SETTINGS = ClientSettings(patience_ms=30_000)


def first_answer_after_an_outage(*, follows: bool) -> Fetched:
    """Fetches while the broker is down for two minutes of virtual time."""
    with Simulation(1) as simulation:
        node, outsider = simulation.new_node(1), simulation.new_outsider("client-1")

        async def chore(client: Client) -> Fetched:
            await make_topic(client, TOPIC)
            await send(client, TOPIC, b"one")
            if follows:
                client.retry_without_limit()
            node.crash_process()
            fetcher = Fetcher(client, {TopicPartition(TOPIC, 0): 0})
            try:
                while True:
                    for fetched in await fetcher.poll():
                        return fetched
            finally:
                await fetcher.close()

        async def start_later() -> None:
            await asyncio.sleep(DOWN_S)
            await node.start()

        async def story() -> Fetched:
            await node.start()
            fetching = asyncio.ensure_future(as_client(simulation, outsider, node, chore, settings=SETTINGS))
            starting = asyncio.ensure_future(start_later())
            fetched = await fetching
            await starting
            return fetched

        return simulation.run(story(), seconds_max=PATIENCE_S)


def test_a_follower_of_a_topic_reads_on_after_any_outage() -> None:
    assert first_answer_after_an_outage(follows=True).high_watermark == 1


def test_other_readers_give_up_when_their_time_is_over() -> None:
    with pytest.raises(ClientError):
        first_answer_after_an_outage(follows=False)
