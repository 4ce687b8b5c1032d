"""A cluster that begins with one broker, and a client that does not wait for the others."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from peers.cluster import PenstockCluster
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.cluster.driving import PATIENCE_S, create, topic_config, until

pytestmark = pytest.mark.foreign

SETTINGS = {
    "penstock.balance.interval.ms": 300,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.num.partitions": 6,
}


@pytest.fixture
def cluster(needs_zookeeper: None) -> Iterator[PenstockCluster]:
    with PenstockCluster(brokers=1, settings=SETTINGS) as cluster:
        yield cluster


def replica_counts(admin: AdminClient) -> set[tuple[int, int]]:
    """How many replicas partitions of the internal topics have, and how many of them are in sync."""
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    partitions = [
        *topics[CONSUMER_OFFSETS].partitions.values(),
        *topics[TRANSACTION_STATE].partitions.values(),
    ]
    return {(len(partition.replicas), len(partition.isrs)) for partition in partitions}


def committed(bootstrap: str) -> int:
    """The offset that the group has committed, fetched with a new client."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "early"})
    try:
        (found,) = consumer.committed([TopicPartition("early", 0)], timeout=PATIENCE_S)
        return int(found.offset)
    finally:
        consumer.close()


def test_internal_topics_get_their_replicas_when_more_brokers_come(cluster):
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create(admin, "early", replicas=1)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "early"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("early", b"x")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "early"})
    producer.send_offsets_to_transaction(
        [TopicPartition("early", 0, 7)], consumer.consumer_group_metadata(), PATIENCE_S
    )
    producer.commit_transaction(PATIENCE_S)
    consumer.close()
    assert replica_counts(admin) == {(1, 1)}

    with ExitStack() as stack:
        later = [stack.enter_context(cluster.broker(node_id)) for node_id in (2, 3)]
        until(lambda: replica_counts(admin) == {(3, 3)})
        assert topic_config(admin, TRANSACTION_STATE, "min.insync.replicas") == "2"
        cluster.brokers[1].kill()
        assert committed(",".join(broker.bootstrap for broker in later)) == 7
        # A new producer finds the transactional id on a broker that was not there when the id was first used.
        successor = Producer({"bootstrap.servers": later[0].bootstrap, "transactional.id": "early"})
        successor.init_transactions(PATIENCE_S)
