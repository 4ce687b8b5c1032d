"""The lease guard: a broker that was paused serves no requests until it knows that it is still registered."""

import asyncio
import time

import pytest

from penstock.client.errors import ClientError
from tests.raw_client import batch_of
from tests.services.replication.cluster import Cluster, led_by
from tests.services.replication.stories import tell

LIMIT_S = 1.0


def test_requests_that_arrived_while_the_process_was_paused_are_not_served() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        node = cluster[1]
        place = node.loop.create_future()
        node.connections.lease_guard.watch(LIMIT_S, lambda: place)
        assert (await node.produce(batch_of(b"x"))).error_code == 0
        connection = await node.connection()
        sent = node.loop.time()
        produced = asyncio.create_task(node.produce_on(connection, batch_of(b"old")))
        await asyncio.sleep(0)  # it lies in the socket
        time.sleep(LIMIT_S + 0.1 - (node.loop.time() - sent))
        with pytest.raises(ClientError):
            await produced
        with pytest.raises(ClientError):  # nor is anything that comes before the place is known
            await node.produce(batch_of(b"early"))
        assert node.replica().log.end_offset == 1
        place.set_result(None)
        await cluster.until(lambda: node.connections.lease_guard.trusted_until > node.loop.time())
        assert (await node.produce(batch_of(b"new"))).base_offset == 1
        node.connections.lease_guard.stop()

    tell(story, 1)


def test_a_process_that_is_never_paused_is_never_stopped_by_the_lease_guard() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.controller.create(led_by(1))
        node = cluster[1]
        node.connections.lease_guard.watch(LIMIT_S, node.loop.create_future)
        connection = await node.connection()
        ends = node.loop.time() + 2 * LIMIT_S
        while node.loop.time() < ends:
            assert (await node.produce_on(connection, batch_of(b"x"))).error_code == 0
            await asyncio.sleep(LIMIT_S / 10)
        node.connections.lease_guard.stop()

    tell(story, 1)
