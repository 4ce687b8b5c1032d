"""Requests to other brokers: a restarted broker (another broker epoch) does not answer earlier requests."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from penstock.client.connection import ConnectionLimits
from penstock.client.errors import ConnectionLostError
from penstock.cluster.peers import Peers
from penstock.wire.messages.fetch import FetchRequest, FetchResponse
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.world.real_loop import run
from tests.raw_client import fetch_request
from tests.services.replication.cluster import PATIENCE_S, TOPIC, TOPIC_ID, Cluster, cluster_of, led_by

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def hour_long_request_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ConnectionLimits(request_timeout_ms=HOUR_MS, in_flight_max=100)
    monkeypatch.setattr("penstock.cluster.peers._LIMITS", limits)


def tell(story: Callable[[Cluster, Peers], Awaitable[None]]) -> None:
    """Run a story with three brokers, the first of which sends requests to the others."""

    async def main() -> None:
        async with cluster_of(3) as cluster, asyncio.timeout(PATIENCE_S):
            await cluster.controller.create(led_by(2), led_by(3))
            await story(cluster, cluster[1].peers)

    run(main)


def held(index: int) -> FetchRequest:
    """What is not answered before there is something to read."""
    request = fetch_request(TOPIC, 0, partition=index, max_wait_ms=HOUR_MS)
    request.topics[0].topic_id = TOPIC_ID
    return request


async def ask_held(cluster: Cluster, peers: Peers, node_id: int) -> "asyncio.Task[FetchResponse]":
    asking = asyncio.create_task(peers.ask(node_id, held(node_id - 2), FetchResponse))
    fetches = cluster[node_id].replica(node_id - 2).fetches
    await cluster.until(lambda: len(fetches) > 0)
    return asking


def begin_another_life(cluster: Cluster, node_id: int) -> None:
    broker = cluster.controller.brokers[node_id]
    cluster.controller.tell_of(replace(broker, epoch=broker.epoch + 1))


def test_requests_to_an_earlier_broker_epoch_fail_at_once() -> None:
    async def story(cluster: Cluster, peers: Peers) -> None:
        asking = await ask_held(cluster, peers, 2)
        other = await ask_held(cluster, peers, 3)
        begin_another_life(cluster, 2)
        peers.brokers_changed()
        with pytest.raises(ConnectionLostError):
            await asking
        assert not other.done()
        await peers.ask(2, MetadataRequest(topics=[]), MetadataResponse)
        other.cancel()

    tell(story)


def test_the_next_request_goes_to_the_brokers_new_epoch() -> None:
    async def story(cluster: Cluster, peers: Peers) -> None:
        asking = await ask_held(cluster, peers, 2)
        begin_another_life(cluster, 2)
        # On the connection that there is, it would wait for what is held there.
        await peers.ask(2, MetadataRequest(topics=[]), MetadataResponse)
        assert not asking.done()
        peers.brokers_changed()
        with pytest.raises(ConnectionLostError):
            await asking

    tell(story)


def test_a_dedicated_connection_ends_with_the_brokers_epoch() -> None:
    async def story(cluster: Cluster, peers: Peers) -> None:
        ending, staying = await peers.connect(2), await peers.connect(3)
        peers.brokers_changed()
        assert ending.is_open
        begin_another_life(cluster, 2)
        peers.brokers_changed()
        await ending.ended()
        assert staying.is_open
        next_one = await peers.connect(2)
        peers.brokers_changed()
        assert next_one.is_open
        staying.close()
        next_one.close()

    tell(story)


def test_requests_to_a_fenced_broker_fail_at_once() -> None:
    async def story(cluster: Cluster, peers: Peers) -> None:
        asking = await ask_held(cluster, peers, 2)
        cluster.controller.tell_of(replace(cluster.controller.brokers[2], fenced=True))
        peers.brokers_changed()
        with pytest.raises(ConnectionLostError):
            await asking

    tell(story)
