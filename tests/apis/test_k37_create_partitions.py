import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.raw_client import RawClient, batch_of


def grow(
    client: RawClient,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    validate_only: bool = False,
):
    asked = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=assignments and [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments],
    )
    return client.ask(CreatePartitionsRequest(topics=[asked], validate_only=validate_only), 3).results[0]


def partitions(client: RawClient, name: str) -> list[int]:
    (topic,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
    return [partition.partition_index for partition in topic.partitions]


def test_added_partitions_accept_records_and_the_old_ones_keep_theirs(client: RawClient, topic: str):
    client.create_topic(topic)
    client.produce(topic, batch_of(b"old"))
    assert grow(client, topic, 3).error_code == 0
    assert partitions(client, topic) == [0, 1, 2]
    assert client.produce(topic, batch_of(b"new"), partition=2).base_offset == 0
    assert client.produce(topic, batch_of(b"more")).base_offset == 1


def test_validate_only_adds_no_partitions(client: RawClient, topic: str):
    client.create_topic(topic)
    assert grow(client, topic, 3, validate_only=True).error_code == 0
    assert partitions(client, topic) == [0]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_the_number_of_partitions_must_increase(client: RawClient, topic: str, count: int):
    client.create_topic(topic, partitions=2)
    refused = grow(client, topic, count)
    assert refused.error_code == ErrorCode.INVALID_PARTITIONS
    assert refused.error_message


def test_an_unknown_topic_gets_no_partitions(client: RawClient, topic: str):
    assert grow(client, topic, 2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_new_partitions_can_be_assigned_explicitly(client: RawClient, topic: str):
    client.create_topic(topic)
    assert grow(client, topic, 3, [[1], [1]]).error_code == 0
    assert partitions(client, topic) == [0, 1, 2]


@pytest.mark.parametrize("assignments", [[[1]], [[1], [1], [1]], [[7], [7]], [[1, 1], [1, 1]]], ids=str)
def test_an_invalid_assignment_is_rejected(client: RawClient, topic: str, assignments: list[list[int]]):
    client.create_topic(topic)
    assert grow(client, topic, 3, assignments).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert partitions(client, topic) == [0]


def test_a_topic_named_twice_is_refused(client: RawClient, topic: str):
    client.create_topic(topic)
    twice = [CreatePartitionsTopic(name=topic, count=count, assignments=None) for count in (2, 3)]
    (refused,) = client.ask(CreatePartitionsRequest(topics=twice), 3).results
    assert refused.error_code == ErrorCode.INVALID_REQUEST
