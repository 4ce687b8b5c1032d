"""Answers about topics and the cluster, compared field by field with Apache Kafka's, in every version."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import ZERO_ID
from penstock.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.foreign.asking import UNKNOWN_ID
from tests.foreign.asking import create as make
from tests.foreign.wire_peer import Pair

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def new(name: str, partitions: int = 1, replication_factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def assigned(name: str, *replicas: list[int], partitions: int = -1, first: int = 0) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=first + index, broker_ids=ids)
        for index, ids in enumerate(replicas)
    ]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=-1, assignments=assignments
    )


@pytest.mark.parametrize("version", range(2, 8))
def test_creating_topics(pair: Pair, topic: str, version: int) -> None:
    created = pair.same(create(new(topic, 3), new(f"{topic}-2", retention_ms="5000")), version)

    assert [each["error_code"] for each in created["topics"]] == [0, 0]
    again = pair.same(create(new(topic, 3)), version)
    assert again["topics"][0]["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("version", range(4, 8))
def test_creating_a_topic_with_the_brokers_defaults(pair: Pair, topic: str, version: int) -> None:
    pair.same(create(new(topic, -1, -1)), version)


@pytest.mark.parametrize("version", [2, 5, 6])
def test_validating_a_topic_creates_none(pair: Pair, topic: str, version: int) -> None:
    pair.same(create(new(topic, 2), validate_only=True), version)
    pair.same(create(new(topic, 2, 3), validate_only=True), version)
    pair.same_soon(metadata(topic), 12)


WRONG = {
    "an empty name": new(""),
    "a dot": new("."),
    "two dots": new(".."),
    "a space": new("no spaces"),
    "a slash": new("no/slash"),
    "too long": new("x" * 250),
    "no partitions": new("wrong", 0),
    "negative partitions": new("wrong", -2),
    "no replicas": new("wrong", 1, 0),
    "negative replicas": new("wrong", 1, -2),
    "too many replicas": new("wrong", 1, 3),
    "an unknown config": new("wrong", no_such_config="1"),
    "a config without value": new("wrong", retention_ms=None),
    "a config not a number": new("wrong", retention_ms="soon"),
    "a config out of range": new("wrong", segment_bytes="1"),
    "a config not one of its words": new("wrong", cleanup_policy="burn"),
    "a codec nobody knows": new("wrong", compression_type="brotli"),
    "replicas that are not there": assigned("wrong", [7]),
    "replicas twice": assigned("wrong", [1, 1]),
    "replicas of none": assigned("wrong", []),
    "partitions with a gap": assigned("wrong", [1], first=1),
    "partitions beside assignments": assigned("wrong", [1], partitions=1),
}


@pytest.mark.parametrize("version", [2, 4, 5, 7])
@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_created(pair: Pair, name: str, version: int) -> None:
    refused = pair.same(create(WRONG[name]), version)

    assert refused["topics"][0]["error_code"] != 0


@pytest.mark.parametrize("version", [2, 7])
def test_names_that_collide_and_names_given_twice(pair: Pair, topic: str, version: int) -> None:
    pair.same(create(new(f"{topic}_a.b")), version)
    pair.same(create(new(f"{topic}_a_b")), version)
    pair.same(create(new(f"{topic}-twice"), new(f"{topic}-twice")), version)


@pytest.mark.parametrize("version", [2, 7])
def test_creating_topics_with_assignments(pair: Pair, topic: str, version: int) -> None:
    pair.same(create(assigned(topic, [1], [1])), version)
    pair.same_soon(metadata(topic), 12)


def metadata(*names: str, create_missing: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create_missing)


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_topics_by_name(pair: Pair, topic: str, version: int) -> None:
    make(pair, topic, partitions=3)

    request = metadata(topic) if version >= 4 else MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    described = pair.same(request, version)
    assert [len(each["partitions"]) for each in described["topics"]] == [3]


@pytest.mark.parametrize("version", range(4, 14))
def test_metadata_of_topics_that_are_not_there(pair: Pair, topic: str, version: int) -> None:
    answer = pair.same(metadata(topic, "no spaces"), version)
    assert {each["error_code"] for each in answer["topics"]} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


@pytest.mark.parametrize("version", range(1, 14))
def test_metadata_of_the_brokers_alone(pair: Pair, version: int) -> None:
    none = MetadataRequest(topics=[])
    assert pair.same(none, version)["brokers"][0]["port"] == "here"


@pytest.mark.parametrize("version", [8, 9, 10, 11, 13])
def test_metadata_with_authorised_operations(pair: Pair, topic: str, version: int) -> None:
    make(pair, topic)
    request = metadata(topic)
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = version <= 10
    pair.same(request, version)


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_metadata_of_topics_by_id(pair: Pair, topic: str, version: int) -> None:
    make(pair, topic, partitions=2)
    pair.same(
        lambda peer: MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=peer.topic_id(topic), name=None)],
            allow_auto_topic_creation=False,
        ),
        version,
    )
    unknown = [MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)]
    pair.same(MetadataRequest(topics=unknown, allow_auto_topic_creation=False), version)


@pytest.mark.parametrize("version", range(10, 14))
@pytest.mark.parametrize("name", [None, "", "no-such-topic", "with space"])
@pytest.mark.parametrize("topic_id", [ZERO_ID, UNKNOWN_ID])
def test_metadata_of_what_has_an_unknown_id_or_no_name(
    pair: Pair, version: int, name: str | None, topic_id: bytes
) -> None:
    topics = [MetadataRequestTopic(topic_id=topic_id, name=name)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    if version >= 12 and name is None and topic_id == ZERO_ID:  # which Kafka's handler does not survive
        assert pair.broker.ask(request, version).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        return
    pair.same(request, version)
    if version < 12:
        topics.append(MetadataRequestTopic(name="no-such-topic"))
        pair.same(request, version)


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
def test_metadata_that_creates_what_is_missing(pair: Pair, topic: str, version: int) -> None:
    # Kafka says that the topic is unknown and to come again; here it is there at once.
    made = pair.same_soon(metadata(topic, create_missing=True), version)
    assert made["topics"][0]["error_code"] == 0


@pytest.mark.parametrize("version", range(1, 7))
def test_deleting_topics(pair: Pair, topic: str, version: int) -> None:
    make(pair, topic)

    def delete(*names: str) -> DeleteTopicsRequest:
        topics = [DeleteTopicState(name=name) for name in names]
        return (
            DeleteTopicsRequest(topics=topics, timeout_ms=10_000)
            if version >= 6
            else DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000)
        )

    deleted = pair.same(delete(topic, f"{topic}-unknown"), version)
    assert {each["error_code"] for each in deleted["responses"]} == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    pair.same(delete(topic), version)


def test_deleting_topics_by_id(pair: Pair, topic: str) -> None:
    make(pair, topic)
    pair.same(
        lambda peer: DeleteTopicsRequest(
            topics=[DeleteTopicState(topic_id=peer.topic_id(topic)), DeleteTopicState(topic_id=UNKNOWN_ID)],
            timeout_ms=10_000,
        ),
        6,
    )
    pair.same_soon(metadata(topic), 12)


def test_deleting_with_both_or_neither_name_and_id(pair: Pair, topic: str) -> None:
    make(pair, topic)
    both = DeleteTopicState(name=topic, topic_id=UNKNOWN_ID)
    pair.same(DeleteTopicsRequest(topics=[both], timeout_ms=10_000), 6)
    pair.same(DeleteTopicsRequest(topics=[DeleteTopicState()], timeout_ms=10_000), 6)
    twice = [DeleteTopicState(name=topic), DeleteTopicState(name=topic)]
    pair.same(DeleteTopicsRequest(topics=twice, timeout_ms=10_000), 6)


@pytest.mark.parametrize("version", range(4))
def test_creating_partitions(pair: Pair, topic: str, version: int) -> None:
    make(pair, topic, partitions=2)

    def grow(count: int, *replicas: list[int], validate_only: bool = False, name: str = topic) -> int:
        assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in replicas] or None
        grown = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=validate_only)
        return int(pair.same(request, version)["results"][0]["error_code"])

    assert grow(2) == ErrorCode.INVALID_PARTITIONS
    assert grow(1) == ErrorCode.INVALID_PARTITIONS
    assert grow(0) == ErrorCode.INVALID_PARTITIONS
    assert grow(-1) == ErrorCode.INVALID_PARTITIONS
    assert grow(3, name=f"{topic}-unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(3, [7]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(3, [1], [1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(5, [1]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(3, validate_only=True) == 0
    assert grow(3) == 0
    assert grow(4, [1]) == 0
    assert len(pair.same_soon(metadata(topic), 9)["topics"][0]["partitions"]) == 4


def test_creating_partitions_of_one_topic_twice(pair: Pair, topic: str) -> None:
    make(pair, topic)
    grown = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    pair.same(CreatePartitionsRequest(topics=[grown, grown], timeout_ms=10_000), 3)


def test_describing_partitions_in_pages(pair: Pair, topic: str) -> None:
    make(pair, f"{topic}-a", partitions=3)
    make(pair, f"{topic}-b", partitions=2)
    topics = [TopicRequest(name=f"{topic}-b"), TopicRequest(name=f"{topic}-a")]

    everything = pair.same(DescribeTopicPartitionsRequest(topics=topics), 0)
    assert [len(each["partitions"]) for each in everything["topics"]] == [3, 2]
    page = pair.same(DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2), 0)
    assert page["next_cursor"] is not None
    cursor = Cursor(**page["next_cursor"])
    pair.same(DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2, cursor=cursor), 0)
    beyond = Cursor(topic_name=f"{topic}-a", partition_index=9)
    pair.same(DescribeTopicPartitionsRequest(topics=topics, cursor=beyond), 0)
    elsewhere = Cursor(topic_name=f"{topic}-aa", partition_index=0)
    pair.same(DescribeTopicPartitionsRequest(topics=topics, cursor=elsewhere), 0)
    pair.same(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name=f"{topic}-x"), TopicRequest(name="a b")]), 0
    )


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("operations", [False, True])
def test_describing_the_cluster(pair: Pair, version: int, operations: bool) -> None:
    pair.same(DescribeClusterRequest(include_cluster_authorized_operations=operations), version)


@pytest.mark.parametrize("endpoint_type", [2, 9])
def test_describing_the_cluster_through_another_kind_of_endpoint(pair: Pair, endpoint_type: int) -> None:
    pair.same(DescribeClusterRequest(endpoint_type=endpoint_type), 1)


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [2, 9])
def test_finding_a_coordinator_of_a_kind_without_topic_or_unknown(
    pair: Pair, version: int, key_type: int
) -> None:
    if version >= 4:
        pair.same(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a key"]), version)
    else:
        pair.same(FindCoordinatorRequest(key_type=key_type, key="a key"), version)
