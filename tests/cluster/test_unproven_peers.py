"""Brokers of the versions before the handshake: how they are recognised, and how requests are sent to them."""

import asyncio
from dataclasses import replace

import pytest

from penstock.base.features import PEER_VERSION, RANGES_BEFORE, SUPPORTED, LevelRange
from penstock.base.ids import TopicPartition, format_id
from penstock.base.secret import Secret
from penstock.cluster.handshake import PeerCredentials
from penstock.cluster.metadata import NO_LEADER, BrokerRegistration, MetadataImage
from penstock.cluster.unproven_peers import is_unproven_peer
from penstock.controller.partition_loads import PartitionLoads
from penstock.controller.requests_to_unproven_peers import ask_log_ends
from penstock.controller.rules.majority_partitions import Report
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import run
from tests.raw_client import batch_of, fetch_request
from tests.services.replication.cluster import PATIENCE_S, TOPIC, TOPIC_ID, Cluster, cluster_of, led_by

OWN = PeerCredentials(Secret("a secret"), RealEntropy(), cluster_id="a-cluster", node_id=9)
OLD = BrokerRegistration(1, None, {}, epoch=5, features=RANGES_BEFORE)


def image_with(broker: BrokerRegistration) -> MetadataImage:
    image = MetadataImage("a-cluster")
    image.apply_broker(broker)
    return image


def test_an_old_broker_that_is_registered_and_not_fenced_is_accepted() -> None:
    assert is_unproven_peer(image_with(OLD), "__penstock-broker-1", OWN)
    lowered = {**SUPPORTED, PEER_VERSION: LevelRange(0, 0)}
    assert is_unproven_peer(image_with(replace(OLD, features=lowered)), "__penstock-broker-1", OWN)


def test_a_fenced_broker_and_one_that_knows_the_handshake_are_not_accepted() -> None:
    assert not is_unproven_peer(image_with(replace(OLD, fenced=True)), "__penstock-broker-1", OWN)
    assert not is_unproven_peer(image_with(replace(OLD, features=SUPPORTED)), "__penstock-broker-1", OWN)


@pytest.mark.parametrize(
    "client_id",
    [None, "", "1", "broker-1", "__penstock-broker-", "__penstock-broker-2", "__penstock-broker--1"],
)
def test_only_an_old_brokers_own_client_id_is_accepted(client_id: str | None) -> None:
    assert not is_unproven_peer(image_with(OLD), client_id, OWN)


@pytest.mark.parametrize("client_id", ["__penstock-broker-x", f"__penstock-broker-{'9' * 30_000}"])
def test_a_client_id_without_a_node_id_is_no_brokers(client_id: str) -> None:
    assert not is_unproven_peer(image_with(OLD), client_id, OWN)


def make_old(cluster: Cluster, *node_ids: int) -> None:
    for node_id in node_ids:
        cluster.controller.tell_of(replace(cluster.controller.brokers[node_id], features=RANGES_BEFORE))
        cluster[node_id].credentials.proves = False


@pytest.mark.parametrize("old", [(1,), (2,), (1, 2)])
def test_old_and_new_brokers_replicate_and_tell_their_loads(old: tuple[int, ...]) -> None:
    async def main() -> None:
        async with cluster_of(2) as cluster, asyncio.timeout(PATIENCE_S):
            make_old(cluster, *old)
            await cluster.controller.create(led_by(2, 1))
            await cluster[2].produce(batch_of(bytes(10_000)))
            await cluster.until_same(1, 2)
            await cluster[2].fetch(fetch_request(TOPIC, 0))
            asking = cluster[1]
            assert asking.peers.shakes_hands(2) == (not old)
            loads = PartitionLoads(asking.world, asking.image, asking.replicas, asking.peers, node_id=1)
            await loads.measure(0)
            where = TopicPartition(TOPIC, 0)
            assert loads.written.totals[where] > 10_000
            assert loads.sent.totals[where] > 10_000

    run(main)


def test_an_old_broker_is_asked_for_log_ends_and_answers() -> None:
    async def main() -> None:
        async with cluster_of(2) as cluster, asyncio.timeout(PATIENCE_S):
            make_old(cluster, 1, 2)
            await cluster.controller.create(led_by(2, 1))
            await cluster[2].produce(batch_of(b"a", b"b"))
            await cluster.until_same(1, 2)
            await cluster.controller.elect(NO_LEADER)
            where = TopicPartition(format_id(TOPIC_ID), 0)
            told = await ask_log_ends(cluster[1].peers, 2, {where: 1})
            assert told == {where: Report(0, 2)}
            assert await ask_log_ends(cluster[1].peers, 2, {where: 7}) == {}, "it does not know of that epoch"

    run(main)
