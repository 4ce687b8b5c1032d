"""Requests, and readers of responses, that several API tests use."""

from collections.abc import Sequence
from typing import Any

from penstock.base.ids import ZERO_ID
from penstock.records.batch import headers
from penstock.records.record import Record, read_records
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.raw_client import RawClient

TOPIC = 2
BROKER = 4

SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3

LIMIT = 1 << 26


def topic_id(client: RawClient, name: str) -> bytes:
    """The id of a topic; sixteen zeros if there is none."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    found: bytes = client.ask(request, 12).topics[0].topic_id
    return found


def exists(client: RawClient, name: str) -> bool:
    return topic_id(client, name) != ZERO_ID


def delete_topic(client: RawClient, name: str) -> None:
    answer = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6)
    assert answer.responses[0].error_code == 0


def list_offset(
    client: RawClient, topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, version: int = 11
) -> Any:
    asked = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])], timeout_ms=10_000
    )
    return client.ask(request, version).topics[0].partitions[0]


def end_offset(client: RawClient, topic: str, partition: int = 0) -> int:
    return int(list_offset(client, topic, -1, partition=partition).offset)


def describe(
    client: RawClient,
    resource_type: int,
    name: str,
    keys: Sequence[str] | None = None,
    *,
    version: int = 4,
) -> Any:
    """The described resource, with synonyms and documentation."""
    resource = DescribeConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configuration_keys=None if keys is None else list(keys),
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=version >= 3
    )
    return client.ask(request, version).results[0]


def config(client: RawClient, resource_type: int, name: str, key: str) -> Any:
    result = describe(client, resource_type, name, [key])
    assert result.error_code == 0, result.error_message
    return result.configs[0]


def alter(
    client: RawClient,
    resource_type: int,
    name: str,
    key: str,
    value: str | None,
    operation: int = SET,
    *,
    validate_only: bool = False,
    version: int = 1,
) -> Any:
    """The answer to an incremental change of one config."""
    resource = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=operation, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return client.ask(request, version).responses[0]


def new_producer_id(client: RawClient) -> int:
    answer = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    assert answer.error_code == 0
    return int(answer.producer_id)


def records_in(data: Any) -> list[Record]:
    """The records of all whole batches in what a fetch brought."""
    found: list[Record] = []
    for position, header in headers(data):
        found.extend(read_records(data[position : position + header.size], limit=LIMIT))
    return found


def values_in(data: Any) -> list[bytes | None]:
    return [record.value for record in records_in(data)]
