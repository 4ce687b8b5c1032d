"""Requests of groups, with what a test does not care about filled in."""

from typing import Any

from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.wire.messages.sync_group import SyncGroupRequest

# A subscription to no topics, in the consumers' own format: Kafka looks into it, and never answers if it cannot.
METADATA = bytes.fromhex("0000 00000000 ffffffff")


def joining(
    group: str,
    member_id: str = "",
    *,
    session_timeout_ms: int = 10_000,
    protocol_type: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
    instance_id: str | None = None,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=METADATA) for name in protocols],
    )


def syncing(group: str, member_id: str, generation: int = 1, **options: Any) -> SyncGroupRequest:
    fields: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} | options
    return SyncGroupRequest(group_id=group, generation_id=generation, member_id=member_id, **fields)


def committing(
    group: str, topic: str, *offsets: int, metadata: str | None = "", **options: Any
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=0,
            committed_metadata=metadata,
        )
        for index, offset in enumerate(offsets)
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return OffsetCommitRequest(group_id=group, topics=topics, **options)


def fetching(group: str, topic: str | None, *indexes: int, **options: Any) -> OffsetFetchRequest:
    topics = (
        None if topic is None else [OffsetFetchRequestTopics(name=topic, partition_indexes=list(indexes))]
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics, **options)])


def beating(group: str, member_id: str = "me", member_epoch: int = 0, **options: Any) -> Any:
    fields: dict[str, Any] = options
    if member_epoch == 0:
        fields = {
            "rebalance_timeout_ms": 5000,
            "subscribed_topic_names": [],
            "topic_partitions": [],
        } | options
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=member_epoch, **fields
    )
