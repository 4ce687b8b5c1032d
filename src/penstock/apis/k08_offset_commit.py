"""OffsetCommit (key 8), v2-v10: commits offsets of a group.

Topics are given by name up to version 9 and by id from version 10 on. Unknown topics and partitions are rejected here;
the group decides everything else.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import NamedTuple

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import GROUP, READ, TOPIC
from penstock.base.errors import ErrorCode, Refusal
from penstock.cluster.metadata import Topic
from penstock.core.groups.requests import OffsetCommit, OffsetToCommit
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

REQUEST = OffsetCommitRequest
VERSIONS = (2, 10)
NEEDS = (
    Need(READ, GROUP, "group_id"),
    Need(READ, TOPIC, "topics.name", ids="topics.topic_id"),
)

TOPIC_IDS_SINCE = 10


class _Asked(NamedTuple):
    """The response so far, and the offsets that the coordinator decides about."""

    response: OffsetCommitResponse
    offsets: list[OffsetToCommit]
    answers: list[OffsetCommitResponsePartition]  # one per offset


def handle(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | Reply:
    asked = _split(call, request)
    if not asked.offsets:
        return asked.response
    commit = OffsetCommit(
        group_id=request.group_id,
        offsets=asked.offsets,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        version=call.version,
        retention_ms=request.retention_time_ms,
    )
    codes = call.services.coordinators.groups.ask_at_once(
        request.group_id, lambda shard, now_ms: shard.commit_offsets(commit, now_ms)
    )
    if isinstance(codes, tuple):  # or a Refusal, which is a tuple too
        return _respond(asked, codes)
    if isinstance(codes, asyncio.Future):
        return Reply(codes, partial(_respond, asked), next_may_start=True)
    return Reply(_respond_later(asked, codes))


async def _respond_later(
    asked: _Asked, codes: Awaitable[tuple[ErrorCode, ...] | Refusal]
) -> OffsetCommitResponse:
    return _respond(asked, await codes)


def _respond(asked: _Asked, codes: tuple[ErrorCode, ...] | Refusal) -> OffsetCommitResponse:
    if isinstance(codes, Refusal):
        codes = (_code_of(codes),) * len(asked.offsets)
    for answer, code in zip(asked.answers, codes, strict=True):
        answer.error_code = code
    return asked.response


def _split(call: Call, request: OffsetCommitRequest) -> _Asked:
    """Split the request into offsets of existing partitions, and errors for the others."""
    asked = _Asked(OffsetCommitResponse(), [], [])
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        asked.response.topics.append(answer)
        found = _find(call, topic)
        for partition in topic.partitions:
            told = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            answer.partitions.append(told)
            if isinstance(found, ErrorCode):
                told.error_code = found
                continue
            if not 0 <= partition.partition_index < len(found.partitions):
                told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            asked.answers.append(told)
            asked.offsets.append(
                OffsetToCommit(
                    topic=found.name,
                    partition=partition.partition_index,
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata,
                    topic_id=found.topic_id,
                )
            )
    return asked


def _find(call: Call, topic: OffsetCommitRequestTopic) -> Topic | ErrorCode:
    if call.version >= TOPIC_IDS_SINCE:
        return call.services.cluster.image.topic_by_id(topic.topic_id) or ErrorCode.UNKNOWN_TOPIC_ID
    return call.services.cluster.image.topic(topic.name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _code_of(refusal: Refusal) -> ErrorCode:
    if refusal.code is ErrorCode.MESSAGE_TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return code_of(refusal)
