"""OffsetFetch (key 9), v1-v10: the committed offsets of groups, for some partitions or for all.

One group up to version 7, several from version 8 on. Topics are given by name up to version 9 and by id from version 10
on. Offsets that were committed for an earlier topic of the same name are ignored.
"""

from collections.abc import Sequence
from itertools import groupby

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of
from penstock.apis.needs import Need
from penstock.apis.rights import DESCRIBE, GROUP, TOPIC
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import NO_LEADER_EPOCH, NO_OFFSET, CommittedOffset, FetchOffsets
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

REQUEST = OffsetFetchRequest
VERSIONS = (1, 10)
NEEDS = (
    Need(DESCRIBE, GROUP, "group_id"),
    Need(DESCRIBE, GROUP, "groups.group_id"),
    Need(DESCRIBE, TOPIC, "topics.name"),
    Need(DESCRIBE, TOPIC, "groups.topics.name", ids="groups.topics.topic_id"),
)
CANCEL_ON_DISCONNECT = True

GROUP_ERROR_SINCE = 2
SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10


async def handle(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if call.version >= SEVERAL_GROUPS_SINCE:
        groups = [
            await _fetch(call, group, require_stable=request.require_stable) for group in request.groups
        ]
        return OffsetFetchResponse(groups=groups)
    return _single(call, await _fetch(call, _only_group(request), require_stable=request.require_stable))


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The request as versions with several groups have it."""
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )


def _single(call: Call, group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The response as versions with one group have it."""
    return OffsetFetchResponse(
        error_code=group.error_code if call.version >= GROUP_ERROR_SINCE else ErrorCode.NONE,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


async def _fetch(
    call: Call, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    names = _names(call, group)
    asked = None
    if group.topics is not None:
        asked = [
            (name, index)
            for name, topic in zip(names, group.topics, strict=True)
            if name is not None
            for index in topic.partition_indexes
        ]
    fetch = FetchOffsets(
        group_id=group.group_id,
        partitions=asked,
        topic_ids=_ids(call, None if asked is None else [name for name, _ in asked]),
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        require_stable=require_stable,
    )
    found = await call.services.coordinators.groups.ask(
        group.group_id, lambda shard, _: shard.fetch_offsets(fetch)
    )
    if isinstance(found, Refusal):
        return _refused(call, group, code_of(found))
    if group.topics is None:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=_all_topics(call, found))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=_asked_topics(group.topics, names, found))


def _names(call: Call, group: OffsetFetchRequestGroup) -> list[str | None]:
    """The names of the requested topics; None for an unknown id."""
    if call.version >= TOPIC_IDS_SINCE:
        return [call.services.cluster.image.name_of(topic.topic_id) for topic in group.topics or ()]
    return [topic.name for topic in group.topics or ()]


def _ids(call: Call, names: Sequence[str] | None) -> dict[str, bytes]:
    image = call.services.cluster.image
    if names is None:
        return {topic.name: topic.topic_id for topic in image.topics()}
    found = {name: image.topic(name) for name in names}
    return {name: topic.topic_id for name, topic in found.items() if topic is not None}


def _asked_topics(
    topics: Sequence[OffsetFetchRequestTopics], names: Sequence[str | None], found: Sequence[CommittedOffset]
) -> list[OffsetFetchResponseTopics]:
    """In the order of the request; `found` has the offsets of known topics, in the same order."""
    answers = iter(found)
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _nothing(index, ErrorCode.UNKNOWN_TOPIC_ID) if name is None else _committed(next(answers))
                for index in topic.partition_indexes
            ],
        )
        for topic, name in zip(topics, names, strict=True)
    ]


def _all_topics(call: Call, found: Sequence[CommittedOffset]) -> list[OffsetFetchResponseTopics]:
    """All committed offsets; by id, only those of existing topics."""
    answers = []
    for name, partitions in groupby(found, key=lambda one: one.topic):
        topic = call.services.cluster.image.topic(name)
        if topic is None and call.version >= TOPIC_IDS_SINCE:
            continue
        answers.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=bytes(16) if topic is None else topic.topic_id,
                partitions=[_committed(one) for one in partitions],
            )
        )
    return answers


def _refused(call: Call, group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    if call.version >= GROUP_ERROR_SINCE:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[_nothing(index, code) for index in topic.partition_indexes]
            )
            for topic in group.topics or ()
        ],
    )


def _committed(one: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=one.partition,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        error_code=one.error,
    )


def _nothing(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )
