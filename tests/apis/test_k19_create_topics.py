import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import ZERO_ID
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.apis.requests import TOPIC, config, exists, topic_id
from tests.raw_client import RawClient


def creatable(name: str, partitions: int = 1, replication_factor: int = 1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
    )


def create(client: RawClient, *topics: CreatableTopic, validate_only: bool = False, version: int = 7):
    return client.ask(CreateTopicsRequest(topics=list(topics), validate_only=validate_only), version).topics


def partition_count(client: RawClient, name: str) -> int:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)], response_partition_limit=2000)
    return len(client.ask(request, 0).topics[0].partitions)


def test_the_answer_describes_the_new_topic(client: RawClient, topic: str):
    (created,) = create(client, creatable(topic, 3, retention_ms="1000"))
    assert created.error_code == 0
    assert (created.num_partitions, created.replication_factor) == (3, 1)
    assert created.topic_id == topic_id(client, topic)
    configs = {entry.name: entry for entry in created.configs}
    assert configs["retention.ms"].value == "1000"
    assert configs["cleanup.policy"].value == "delete"


def test_counts_that_are_not_given_are_the_brokers_defaults(topic: str):
    settings = {"num.partitions": 4, "log.retention.ms": 5000}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        (created,) = create(client, creatable(topic, -1, -1))
        assert (created.num_partitions, created.replication_factor) == (4, 1)
        assert config(client, TOPIC, topic, "retention.ms").value == "5000"


def test_validate_only_describes_the_topic_and_creates_nothing(client: RawClient, topic: str):
    (created,) = create(client, creatable(topic, 2), validate_only=True)
    assert (created.error_code, created.num_partitions, created.topic_id) == (0, 2, ZERO_ID)
    assert not exists(client, topic)
    (refused,) = create(client, creatable(topic, 0), validate_only=True)
    assert refused.error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (creatable("", 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("wrong", 0), ErrorCode.INVALID_PARTITIONS),
        (creatable("wrong", -2), ErrorCode.INVALID_PARTITIONS),
        (creatable("wrong", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("wrong", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("wrong", no_such_config="1"), ErrorCode.INVALID_CONFIG),
        (creatable("wrong", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (creatable("wrong", segment_bytes="1"), ErrorCode.INVALID_CONFIG),
        (creatable("wrong", cleanup_policy="burn"), ErrorCode.INVALID_CONFIG),
        (creatable("wrong", remote_storage_enable="true"), ErrorCode.INVALID_CONFIG),
        (
            creatable("wrong", min_compaction_lag_ms="2", max_compaction_lag_ms="1"),
            ErrorCode.INVALID_CONFIG,
        ),
    ],
    ids=str,
)
def test_an_invalid_topic_is_rejected_with_a_reason(
    client: RawClient, wrong: CreatableTopic, code: ErrorCode
):
    (refused,) = create(client, wrong)
    assert refused.error_code == code
    assert refused.error_message
    assert wrong.name == "" or not exists(client, wrong.name)


def test_an_unknown_config_is_refused_with_the_nearest_known_one(client: RawClient, topic: str):
    (refused,) = create(client, creatable(topic, retention_msec="1"))
    assert "retention.ms" in refused.error_message


def test_a_null_config_is_refused(client: RawClient, topic: str):
    asked = creatable(topic)
    asked.configs = [CreatableTopicConfig(name="retention.ms", value=None)]
    assert create(client, asked)[0].error_code == ErrorCode.INVALID_CONFIG


def test_a_topic_that_exists_is_not_created_again(client: RawClient, topic: str):
    client.create_topic(topic)
    before = topic_id(client, topic)
    assert create(client, creatable(topic))[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert topic_id(client, topic) == before


def test_names_that_differ_in_dot_and_underscore_only_collide(client: RawClient, topic: str):
    client.create_topic(f"{topic}.a")
    assert create(client, creatable(f"{topic}_a"))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_one_wrong_topic_does_not_keep_the_others_from_being_created(client: RawClient, topic: str):
    answers = create(client, creatable(topic), creatable("a b"))
    assert {a.name: a.error_code for a in answers} == {topic: 0, "a b": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert exists(client, topic)


def test_a_topic_named_twice_in_a_request_is_not_created(client: RawClient, topic: str):
    (refused,) = create(client, creatable(topic), creatable(topic))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert not exists(client, topic)


def assigned(name: str, assignments: dict[int, list[int]]) -> CreatableTopic:
    topic = creatable(name, -1, -1)
    topic.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in assignments.items()
    ]
    return topic


def test_partitions_can_be_assigned_explicitly(client: RawClient, topic: str):
    (created,) = create(client, assigned(topic, {1: [1], 0: [1]}))
    assert (created.error_code, created.num_partitions) == (0, 2)
    assert partition_count(client, topic) == 2


@pytest.mark.parametrize("assignments", [{0: [7]}, {0: []}, {0: [1, 1]}, {1: [1]}, {0: [1], 2: [1]}], ids=str)
def test_an_invalid_assignment_is_rejected(client: RawClient, topic: str, assignments: dict[int, list[int]]):
    (refused,) = create(client, assigned(topic, assignments))
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert not exists(client, topic)


def test_an_assignment_and_a_number_of_partitions_exclude_each_other(client: RawClient, topic: str):
    both = assigned(topic, {0: [1]})
    both.num_partitions = 1
    assert create(client, both)[0].error_code == ErrorCode.INVALID_REQUEST


def test_there_is_a_limit_to_all_partitions_together(topic: str):
    settings = {"penstock.partitions.max": 3}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic(topic, partitions=2)
        assert create(client, creatable(topic + "b", 2))[0].error_code == ErrorCode.POLICY_VIOLATION
        assert create(client, creatable(topic + "b", 1))[0].error_code == 0


def test_the_error_names_the_setting_and_what_to_do(topic: str):
    settings = {"penstock.partitions.max": 3}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        (refused,) = create(client, creatable(topic, 4))
        assert "1 broker would hold 4 partitions" in refused.error_message
        assert "penstock.partitions.max is 3" in refused.error_message
        assert "set it higher" in refused.error_message


def test_the_limit_of_partitions_holds_for_those_created_on_the_way_and_for_those_added(topic: str):
    settings = {"penstock.partitions.max": 3, "num.partitions": 2}
    with EmbeddedBroker(settings=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        asked = [MetadataRequestTopic(name=f"{topic}-{number}") for number in range(3)]
        answer = client.ask(MetadataRequest(topics=asked), 12)
        codes = [found.error_code for found in answer.topics]
        assert codes == [0, ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION]
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=f"{topic}-0", count=4)])
        (refused,) = client.ask(more, 3).results
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert "penstock.partitions.max" in refused.error_message


def test_ten_thousand_partitions_are_allowed_and_twenty_thousand_are_not(client: RawClient, topic: str):
    assert create(client, creatable(topic, 10_000), validate_only=True)[0].error_code == 0
    (refused,) = create(client, creatable(topic, 20_000), validate_only=True)
    assert refused.error_code == ErrorCode.POLICY_VIOLATION


def test_many_topics_in_one_request(client: RawClient, topic: str):
    names = [f"{topic}-{number}" for number in range(50)]
    answers = create(client, *map(creatable, names))
    assert [a.error_code for a in answers] == [0] * 50
