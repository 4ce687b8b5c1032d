"""A group's committed offsets: fetch, commit, delete. OffsetFetch v1-v10, OffsetCommit v2-v10, OffsetDelete v0.

Administrators set the offsets of groups without members; members commit with their generation or member epoch.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import ZERO_ID, TopicPartition
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.coordinators import ask_coordinator, find_coordinators
from penstock.client.errors import AnsweredError, error_code, raise_if_refused, refusal_of
from penstock.client.topics import by_topic
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_MEMBER: Final = ""
# The errors of a fenced member: its generation or member epoch is not the group's.
GONE_ON: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
_SEVERAL_GROUPS_SINCE = 8
# Names topics by name, not id: an administrator also wants the offsets of deleted topics.
_LAST_FETCH_BY_NAME = 9
_LAST_COMMIT_BY_NAME = 9


class GroupOffset(NamedTuple):
    """A group's committed offset in a partition: the next one to read."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


class Membership(NamedTuple):
    """The member that commits, in its generation or member epoch; or no member."""

    generation: int = NO_EPOCH
    member_id: str = NO_MEMBER
    instance_id: str | None = None


async def committed_offsets(
    client: Client,
    group_id: str,
    partitions: Sequence[TopicPartition] | None = None,
    *,
    stable: bool = False,
    membership: Membership | None = None,
) -> dict[TopicPartition, GroupOffset]:
    """The committed offsets of these partitions or of all; partitions without one are left out.

    With `stable`, retries until no transaction has a pending offset commit.
    """

    async def attempt() -> dict[TopicPartition, GroupOffset]:
        (node_id,) = await find_coordinators(client, CoordinatorKind.GROUP, [group_id])
        connection = await client.node_connection(node_id)
        version = connection.versions.pick(OffsetFetchRequest, at_most=_LAST_FETCH_BY_NAME)
        request = _fetch_request(group_id, partitions, stable, membership, version)
        answer = await client.ask_node(node_id, request, OffsetFetchResponse, version_max=version)
        return _committed(answer, version)

    return await client.retry(attempt)


async def commit_offsets(
    client: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, GroupOffset],
    *,
    membership: Membership | None = None,
    patience_ms: int | None = None,
) -> dict[TopicPartition, Refusal | None]:
    """Commit offsets; None for each that succeeded. Retried as a whole: committing an offset twice changes nothing."""
    by = membership or Membership()
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=by.generation,
        member_id=by.member_id,
        group_instance_id=by.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=ZERO_ID,
                partitions=[_commit(index, offsets[TopicPartition(topic, index)]) for index in indexes],
            )
            for topic, indexes in by_topic(list(offsets)).items()
        ],
    )

    def retriable(answer: OffsetCommitResponse) -> int:
        codes = (error_code(each.error_code) for topic in answer.topics for each in topic.partitions)
        return next((code for code in codes if code.retriable), 0)

    answer = await ask_coordinator(
        client,
        CoordinatorKind.GROUP,
        group_id,
        request,
        OffsetCommitResponse,
        code_of=retriable,
        about=f"commit offsets of group {group_id!r}",
        version_max=_LAST_COMMIT_BY_NAME,
        patience_ms=patience_ms,
    )
    return {
        TopicPartition(topic.name, each.partition_index): refusal_of(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


async def delete_offsets(
    client: Client, group_id: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Refusal | None]:
    """Delete committed offsets; None for each that succeeded."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )
    answer = await ask_coordinator(
        client,
        CoordinatorKind.GROUP,
        group_id,
        request,
        OffsetDeleteResponse,
        code_of=lambda answer: answer.error_code,
        about=f"delete offsets of group {group_id!r}",
    )
    return {
        TopicPartition(topic.name, each.partition_index): refusal_of(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


def _fetch_request(
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    stable: bool,
    membership: Membership | None,
    version: int,
) -> OffsetFetchRequest:
    wanted = None if partitions is None else by_topic(partitions)
    if version < _SEVERAL_GROUPS_SINCE:
        return OffsetFetchRequest(
            group_id=group_id,
            topics=None
            if wanted is None
            else [
                OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in wanted.items()
            ],
            require_stable=stable,
        )
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=None
        if wanted is None
        else [
            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in wanted.items()
        ],
    )
    if membership is not None and membership.member_id:
        group.member_id, group.member_epoch = membership.member_id, membership.generation
    return OffsetFetchRequest(groups=[group], require_stable=stable)


def _committed(answer: OffsetFetchResponse, version: int) -> dict[TopicPartition, GroupOffset]:
    code, topics = answer.error_code, answer.topics
    if version >= _SEVERAL_GROUPS_SINCE:
        (group,) = answer.groups
        code, topics = group.error_code, group.topics  # type: ignore[assignment]
    raise_if_refused(code, None, "fetch committed offsets")
    found = {}
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                raise AnsweredError(Refusal(error_code(each.error_code)), f"committed offset of {partition}")
            if each.committed_offset != NO_OFFSET:
                found[partition] = GroupOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return found


def _commit(index: int, committed: GroupOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )
