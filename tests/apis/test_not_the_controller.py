"""A broker that is not the controller, and cannot reach it, answers NOT_CONTROLLER: its metadata may be stale."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from penstock.apis.config_resources import TOPIC
from penstock.base.errors import ErrorCode
from penstock.schema.words import Message
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.elect_leaders import ElectLeadersRequest
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient


def creating(name: str, replicas: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=replicas)], timeout_ms=1_000
    )


# What the controller would refuse for good, were this all that it knew; and where the answer says so.
REFUSED: list[tuple[Message, Any]] = [
    (creating("wide", 3), lambda answer: answer.topics[0].error_code),
    (creating("t", 1), lambda answer: answer.topics[0].error_code),
    (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="unheard-of")], timeout_ms=1_000),
        lambda answer: answer.responses[0].error_code,
    ),
    (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=b"u" * 16)], timeout_ms=1_000),
        lambda answer: answer.responses[0].error_code,
    ),
    (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="unheard-of", count=2, assignments=None)], timeout_ms=1_000
        ),
        lambda answer: answer.results[0].error_code,
    ),
    (
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="unheard-of",
                    configs=[AlterableConfig(name="retention.ms", config_operation=0, value="1")],
                )
            ]
        ),
        lambda answer: answer.responses[0].error_code,
    ),
    (ElectLeadersRequest(election_type=0, topic_partitions=None), lambda answer: answer.error_code),
    (
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="unheard-of", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]
                )
            ]
        ),
        lambda answer: answer.error_code,
    ),
    (ListPartitionReassignmentsRequest(topics=None), lambda answer: answer.error_code),
]


@pytest.fixture(scope="module")
def client() -> Iterator[RawClient]:
    with (
        pytest.MonkeyPatch.context() as patched,
        ControlledBroker() as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        patched.setattr(
            import_module("penstock.apis.forwarding"), "FORWARDING_TIMEOUT_S", 0.0
        )  # no controller will be elected
        client.create_topic("t")
        broker.broker.services.cluster.controller.resign()
        yield client


@pytest.mark.parametrize(("request_", "code_of"), REFUSED, ids=[type(each).__name__ for each, _ in REFUSED])
def test_requests_for_the_controller_are_answered_not_controller(
    client: RawClient, request_: Message, code_of: Any
) -> None:
    _, newest = request_.VERSIONS
    assert code_of(client.ask(request_, newest)) == ErrorCode.NOT_CONTROLLER
