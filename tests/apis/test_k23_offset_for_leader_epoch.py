from pathlib import Path

from peers.penstock import PenstockProcess
from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.proving import credentials_of, prove
from tests.raw_client import RawClient, batch_of

UNKNOWN = -1


def ask(
    client: RawClient,
    topic: str,
    epoch: int,
    *,
    partition: int = 0,
    current: int = -1,
    replica_id: int = -1,
    version: int = 4,
):
    asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    answer = client.ask(OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics), version)
    return answer.topics[0].partitions[0]


def test_the_current_epoch_ends_at_the_end_of_the_log(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"a", b"b"))
    answer = ask(client, topic, 0)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 2)


def test_a_future_epoch_has_no_end_offset(client: RawClient, topic: str):
    client.create_topic(topic)
    answer = ask(client, topic, 5)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, UNKNOWN, UNKNOWN)


def test_unknown_partitions_and_other_current_epochs_are_refused(client: RawClient, topic: str):
    assert ask(client, topic, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic)
    assert ask(client, topic, 0, partition=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(client, topic, 0, current=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_after_a_crash_a_new_epoch_begins_and_the_old_ones_end_is_known(tmp_path: Path):
    with PenstockProcess(tmp_path) as broker:
        with RawClient(broker.bootstrap) as client:
            client.create_topic("t")
            client.produce("t", batch_of(b"a", b"b"))
        broker.kill()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            client.produce("t", batch_of(b"c"))
            old, new = ask(client, "t", 0), ask(client, "t", 1)
            assert (old.leader_epoch, old.end_offset) == (0, 2)
            assert (new.leader_epoch, new.end_offset) == (1, 3)
            assert ask(client, "t", 0, current=0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_request_without_a_replica_id_is_answered_too(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"a"))
    assert ask(client, topic, 0, version=2).end_offset == 1
    assert ask(client, topic, 0, replica_id=-2).end_offset == 1


def test_a_replica_id_is_a_brokers(client: RawClient, broker: EmbeddedBroker, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"a"))
    for replica_id in (0, 1, -3):
        refused = ask(client, topic, 0, replica_id=replica_id)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert refused.end_offset == -1
    prove(client, credentials_of(broker), to=1)
    assert ask(client, topic, 0, replica_id=1).end_offset == 1
