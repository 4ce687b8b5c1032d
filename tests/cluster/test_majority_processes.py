"""Topics with penstock.ack.quorum=majority, on three broker processes with a real ZooKeeper and librdkafka."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata

from peers.cluster import PenstockCluster
from peers.kafka import run_tool
from tests.cluster.driving import (
    REASSIGN_PARTITIONS,
    Writer,
    change_topic_config,
    create,
    leader,
    metadata,
    read_all,
    until,
)

pytestmark = pytest.mark.foreign


@pytest.fixture(scope="module")
def cluster(needs_zookeeper: None) -> Iterator[PenstockCluster]:
    # A broker that is paused is to be taken for alive, and for in sync.
    settings = {
        "penstock.balance.enable": "false",
        "replica.lag.time.max.ms": 600_000,
        "zookeeper.session.timeout.ms": 30_000,
    }
    with PenstockCluster(settings=settings) as cluster:
        yield cluster


def create_counting(admin: AdminClient, topic: str, *, replicas: int = 3, quorum: str = "majority") -> None:
    create(admin, topic, replicas=replicas, penstock_ack_quorum=quorum)


def partition(admin: AdminClient, topic: str) -> PartitionMetadata | None:
    return metadata(admin, topic).topics[topic].partitions.get(0)


def is_whole(admin: AdminClient, topic: str, replicas: set[int]) -> bool:
    found = partition(admin, topic)
    return (
        found is not None and set(found.isrs) == set(found.replicas) == replicas and found.leader in replicas
    )


def test_nothing_acknowledged_is_lost_or_doubled_when_each_broker_dies_in_turn(cluster, admin, topic):
    create_counting(admin, topic)
    writer = Writer(cluster, topic, **{"enable.idempotence": True})
    for node_id, broker in cluster.brokers.items():
        writer.send(500)
        broker.kill()
        until(lambda gone=node_id: leader(admin, topic) not in (-1, gone))
        writer.send(500)
        broker.start()
        until(lambda: is_whole(admin, topic, {1, 2, 3}))
    writer.flush()
    assert not writer.errors
    assert len(writer.acknowledged) == writer.sent
    assert read_all(cluster, topic, writer.sent) == Counter(range(writer.sent))


def test_a_paused_follower_delays_no_write(cluster, admin, topic):
    create_counting(admin, topic)
    create_counting(admin, f"{topic}-all", quorum="all")
    until(lambda: is_whole(admin, topic, {1, 2, 3}) and is_whole(admin, f"{topic}-all", {1, 2, 3}))
    leaders = {found.leader for name in (topic, f"{topic}-all") if (found := partition(admin, name))}
    still = min({1, 2, 3} - leaders)
    writer = Writer(cluster, topic)
    patient = Writer(cluster, f"{topic}-all", **{"message.timeout.ms": 5_000})
    for each in (writer, patient):  # each knows its leader then
        each.send(1)
        each.flush()
    cluster.brokers[still].pause()
    try:
        writer.send(100)
        patient.send(1)
        writer.flush()
        patient.flush()
    finally:
        cluster.brokers[still].resume()
    assert len(writer.acknowledged) == 101
    assert (len(patient.acknowledged), len(patient.errors)) == (1, 1), "every in-sync replica is waited for"
    assert read_all(cluster, topic, 101) == Counter(range(101))


def test_without_a_majority_nothing_is_acknowledged_and_it_goes_on_when_there_is_one(cluster, admin, topic):
    create_counting(admin, topic)
    writer = Writer(cluster, topic, **{"enable.idempotence": True})
    writer.send(100)
    writer.flush()
    hasty = Writer(cluster, topic, **{"message.timeout.ms": 4_000})
    hasty.send(1)
    hasty.flush()
    for node_id in (1, 2):
        cluster.brokers[node_id].kill()
    hasty.send(10)
    hasty.flush()
    assert (len(hasty.acknowledged), len(hasty.errors)) == (1, 10)
    writer.send(100)
    for node_id in (1, 2):
        cluster.brokers[node_id].start()
    writer.flush()
    assert len(writer.acknowledged) == writer.sent == 200
    until(lambda: is_whole(admin, topic, {1, 2, 3}))
    seen = read_all(cluster, topic, 200)
    assert set(seen) == set(range(200))


@pytest.mark.needs("kafka")
def test_replicas_and_leaders_are_moved(cluster, admin, topic, tmp_path: Path):
    create_counting(admin, topic, replicas=2)
    writer = Writer(cluster, topic)
    writer.send(1000)
    before = partition(admin, topic)
    assert before is not None
    stays, goes = before.replicas
    wanted = [({1, 2, 3} - {stays, goes}).pop(), goes]
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": wanted}]})
    )
    at = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", plan)
    assert "Successfully started" in run_tool(REASSIGN_PARTITIONS, *at, "--execute").stdout
    writer.send(1000)
    until(lambda: is_whole(admin, topic, set(wanted)))
    assert "is completed" in run_tool(REASSIGN_PARTITIONS, *at, "--verify").stdout
    writer.flush()
    assert len(writer.acknowledged) == 2000
    assert set(read_all(cluster, topic, 2000)) == set(range(2000))


def test_a_planned_stop_hands_leaders_over(cluster, admin, topic):
    create_counting(admin, topic)
    writer = Writer(cluster, topic)
    writer.send(300)
    found = partition(admin, topic)
    assert found is not None
    cluster.brokers[found.leader].stop()
    writer.send(300)
    writer.flush()
    assert not writer.errors
    cluster.brokers[found.leader].start()
    until(lambda: is_whole(admin, topic, {1, 2, 3}))
    assert set(read_all(cluster, topic, 600)) == set(range(600))


def test_whether_majorities_count_is_decided_when_a_topic_is_created(cluster, admin, topic):
    with pytest.raises(KafkaException, match="all, majority"):
        create_counting(admin, topic, quorum="most")
    create_counting(admin, topic)
    with pytest.raises(KafkaException, match="since the topic was created and cannot be changed"):
        change_topic_config(admin, topic, "penstock.ack.quorum", "all")
