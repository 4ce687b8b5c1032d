from penstock.base.errors import ErrorCode
from penstock.client.cluster import NO_NODE, ClusterMetadata
from penstock.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def answer(
    *, leader: int = 1, epoch: int = 5, topic_id: bytes = b"a" * 16, name: str = "t", error_code: int = 0
) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(
        name=name, topic_id=topic_id, error_code=error_code, partitions=[] if error_code else [partition]
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"h{node}", port=9) for node in (1, 2)],
        controller_id=2,
        cluster_id="c",
        topics=[topic],
    )


def test_an_answer_tells_brokers_controller_and_leaders() -> None:
    cluster = ClusterMetadata()
    cluster.learn(answer())
    assert sorted(cluster.brokers) == [1, 2]
    assert cluster.controller_id == 2
    assert cluster.cluster_id == "c"
    assert cluster.leader("t", 0) == 1
    assert cluster.topic_id("t") == b"a" * 16
    assert cluster.leader("t", 1) is None
    assert cluster.leader("other", 0) is None


def test_an_older_leader_epoch_from_a_broker_that_lags_changes_nothing() -> None:
    cluster = ClusterMetadata()
    cluster.learn(answer(leader=2, epoch=6))
    cluster.learn(answer(leader=1, epoch=5))
    assert cluster.leader("t", 0) == 2


def test_a_recreated_topic_starts_again_at_its_own_epoch() -> None:
    cluster = ClusterMetadata()
    cluster.learn(answer(leader=2, epoch=6))
    cluster.learn(answer(leader=1, epoch=0, topic_id=b"b" * 16))
    assert cluster.leader("t", 0) == 1
    assert cluster.topic_id("t") == b"b" * 16


def test_an_error_answer_that_names_a_newer_leader_is_believed_and_an_older_one_is_not() -> None:
    cluster = ClusterMetadata()
    cluster.learn(answer(leader=1, epoch=5))
    assert not cluster.learn_leader("t", 0, leader=2, leader_epoch=5)
    assert not cluster.learn_leader("t", 0, leader=7, leader_epoch=6), "broker 7 has no known address"
    assert cluster.learn_leader("t", 0, leader=2, leader_epoch=6)
    assert cluster.leader("t", 0) == 2


def test_a_topic_that_is_gone_is_forgotten() -> None:
    cluster = ClusterMetadata()
    cluster.learn(answer())
    (topic,) = cluster.learn(answer(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert topic.refusal is not None
    assert topic.refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "t" not in cluster.topics


def test_asking_for_everything_drops_what_was_not_in_the_answer() -> None:
    cluster = ClusterMetadata()
    cluster.learn(answer(name="old"))
    cluster.learn(answer(name="new"), everything=True)
    assert list(cluster.topics) == ["new"]


def test_a_partition_without_leader_has_none() -> None:
    cluster = ClusterMetadata()
    cluster.learn(answer(leader=NO_NODE))
    assert cluster.leader("t", 0) is None
    assert cluster.partition("t", 0) is not None
