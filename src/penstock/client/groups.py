"""Consumer groups as an administrator sees them: list, describe, delete. ListGroups v0-v5, DescribeGroups v0-v6,
ConsumerGroupDescribe v0-v1, DeleteGroups v0-v2.
"""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from penstock.base.errors import ErrorCode, PeerError, Refusal
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.coordinators import find_coordinators
from penstock.client.errors import AnsweredError, raise_if_refused, refusal_of
from penstock.records.consumer_protocol import read_assignment, read_subscription
from penstock.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from penstock.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_CONSUMER = "consumer"  # the protocol type of groups that read topics
_FILTERS_BY_STATE_SINCE = 4
# Kafka's names for the states of all kinds of groups; Penstock's groups have the first seven.
GROUP_STATES = (
    "Empty",
    "Assigning",
    "Reconciling",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "NotReady",
)
GROUP_TYPES = ("classic", "consumer", "share", "streams")
_FILTERS_BY_TYPE_SINCE = 5


class GroupProtocol(StrEnum):
    """Which side assigns partitions: a member of the group (classic), or the coordinator (consumer)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    UNKNOWN = "unknown"


class GroupListing(NamedTuple):
    group_id: str
    protocol: GroupProtocol
    state: str  # empty if an old broker does not report it
    protocol_type: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    partitions: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    group_id: str
    protocol: GroupProtocol
    state: str
    assignor: str
    epoch: int  # -1 for classic groups, whose epoch is not reported
    members: tuple[DescribedMember, ...]


async def list_groups(
    client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """The groups of all coordinators, sorted by id."""

    async def ask(node_id: int) -> list[GroupListing]:
        connection = await client.node_connection(node_id)
        version = connection.versions.pick(ListGroupsRequest)
        request = ListGroupsRequest(
            states_filter=list(states) if version >= _FILTERS_BY_STATE_SINCE else [],
            types_filter=list(types) if version >= _FILTERS_BY_TYPE_SINCE else [],
        )
        answer = await connection.ask(request, ListGroupsResponse)
        raise_if_refused(answer.error_code, None, f"list the groups of broker {node_id}")
        return [
            GroupListing(each.group_id, _protocol(each.group_type), each.group_state, each.protocol_type)
            for each in answer.groups
        ]

    async def attempt() -> list[GroupListing]:
        found = await asyncio.gather(*(ask(broker.node_id) for broker in await client.brokers()))
        return sorted(group for groups in found for group in groups)

    return await client.retry(attempt)


async def describe_groups(client: Client, group_ids: Sequence[str]) -> dict[str, GroupDescription | Refusal]:
    """Each group's members and their assignments; a Refusal with GROUP_ID_NOT_FOUND for an unknown group."""

    async def ask(node_id: int, ids: Sequence[str]) -> dict[str, GroupDescription | Refusal]:
        found = await _describe_as_consumer_groups(client, node_id, ids)
        # A group of the other protocol is answered as if it did not exist.
        rest = [group_id for group_id in ids if not isinstance(found.get(group_id), GroupDescription)]
        if rest:
            found |= await _describe_as_classic_groups(client, node_id, rest)
        return found

    async def attempt() -> dict[str, GroupDescription | Refusal]:
        by_node = await find_coordinators(client, CoordinatorKind.GROUP, group_ids)
        found: dict[str, GroupDescription | Refusal] = {}
        for part in await asyncio.gather(*(ask(*item) for item in by_node.items())):
            found |= part
        _raise_if_retriable(found, "describe group")
        return found

    return await client.retry(attempt)


async def delete_groups(client: Client, group_ids: Sequence[str]) -> dict[str, Refusal | None]:
    """Delete groups without members, with their offsets; None for each that was deleted."""
    done: dict[str, Refusal | None] = {}

    async def attempt() -> None:
        waiting = [group_id for group_id in group_ids if group_id not in done]
        again: AnsweredError | None = None
        for node_id, ids in (await find_coordinators(client, CoordinatorKind.GROUP, waiting)).items():
            request = DeleteGroupsRequest(groups_names=ids)
            answer = await client.ask_node(node_id, request, DeleteGroupsResponse)
            for each in answer.results:
                refusal = refusal_of(each.error_code)
                if refusal is not None and refusal.code.retriable:
                    again = AnsweredError(refusal, f"delete group {each.group_id!r}")
                else:
                    done[each.group_id] = refusal
        if again is not None:
            raise again

    await client.retry(attempt)
    return done


async def _describe_as_consumer_groups(
    client: Client, node_id: int, group_ids: Sequence[str]
) -> dict[str, GroupDescription | Refusal]:
    connection = await client.node_connection(node_id)
    if not connection.versions.offers(ConsumerGroupDescribeRequest):
        return {}
    answer = await connection.ask(
        ConsumerGroupDescribeRequest(group_ids=list(group_ids)), ConsumerGroupDescribeResponse
    )
    return {
        each.group_id: refusal_of(each.error_code, each.error_message) or _consumer_group(each)
        for each in answer.groups
    }


async def _describe_as_classic_groups(
    client: Client, node_id: int, group_ids: Sequence[str]
) -> dict[str, GroupDescription | Refusal]:
    answer = await client.ask_node(
        node_id, DescribeGroupsRequest(groups=list(group_ids)), DescribeGroupsResponse
    )
    found: dict[str, GroupDescription | Refusal] = {}
    for each in answer.groups:
        refusal = refusal_of(each.error_code, each.error_message)
        if (
            refusal is None and each.group_state == "Dead"
        ):  # older versions answer this for a group that does not exist
            refusal = Refusal(ErrorCode.GROUP_ID_NOT_FOUND)
        found[each.group_id] = refusal or _classic_group(each)
    return found


def _consumer_group(each: DescribedConsumerGroup) -> GroupDescription:
    members = (
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(sorted(member.subscribed_topic_names)),
            member.subscribed_topic_regex or None,
            _partitions(member.assignment),
        )
        for member in each.members
    )
    return GroupDescription(
        each.group_id,
        GroupProtocol.CONSUMER,
        each.group_state,
        each.assignor_name,
        each.group_epoch,
        tuple(members),
    )


def _classic_group(each: DescribedGroup) -> GroupDescription:
    reads_topics = each.protocol_type == _CONSUMER
    members = (
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _subscribed(member.member_metadata) if reads_topics else (),
            None,
            _assigned(member.member_assignment) if reads_topics else (),
        )
        for member in each.members
    )
    return GroupDescription(
        each.group_id, GroupProtocol.CLASSIC, each.group_state, each.protocol_data, -1, tuple(members)
    )


# A client may use any format of its own; metadata that cannot be decoded names no topics.


def _subscribed(data: bytes) -> tuple[str, ...]:
    try:
        return tuple(sorted(read_subscription(data).topics))
    except PeerError:
        return ()


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    try:
        return read_assignment(data)
    except PeerError:
        return ()


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )


def _protocol(text: str) -> GroupProtocol:
    try:
        return GroupProtocol(text.lower())
    except ValueError:
        return GroupProtocol.UNKNOWN


def _raise_if_retriable(found: dict[str, GroupDescription | Refusal], about: str) -> None:
    for group_id, result in found.items():
        if isinstance(result, Refusal) and result.code.retriable:
            raise AnsweredError(result, f"{about} {group_id!r}")
