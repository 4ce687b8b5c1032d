"""Fetch (key 1), v4-v18: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class ReplicaState(Struct):
    replica_id: int = schema.int32("15+", default=-1)
    replica_epoch: int = schema.int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = schema.int32("0+")
    current_leader_epoch: int = schema.int32("9+", default=-1, ignorable=True)
    fetch_offset: int = schema.int64("0+")
    last_fetched_epoch: int = schema.int32("12+", default=-1)
    log_start_offset: int = schema.int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = schema.int32("0+")
    replica_directory_id: bytes = schema.uuid("17+", tag=0, ignorable=True)
    high_watermark: int = schema.int64("18+", tag=1, default=9223372036854775807, ignorable=True)


class FetchTopic(Struct):
    topic: str = schema.string("0-12", ignorable=True)
    topic_id: bytes = schema.uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = schema.array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    topic: str = schema.string("7-12", ignorable=True)
    topic_id: bytes = schema.uuid("13+", ignorable=True)
    partitions: list[int] = schema.array(schema.int32, "7+")


class FetchRequest(Message):
    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_SINCE = 12

    cluster_id: str | None = schema.string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = schema.int32("0-14", default=-1)
    replica_state: ReplicaState | None = schema.struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = schema.int32("0+")
    min_bytes: int = schema.int32("0+")
    max_bytes: int = schema.int32("3+", default=2147483647, ignorable=True)
    isolation_level: int = schema.int8("4+", ignorable=True)
    session_id: int = schema.int32("7+", ignorable=True)
    session_epoch: int = schema.int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = schema.array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = schema.array(ForgottenTopic, "7+")
    rack_id: str = schema.string("11+", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int = schema.int32("12+", default=-1)
    end_offset: int = schema.int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = schema.int32("12+", default=-1)
    leader_epoch: int = schema.int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = schema.int64("0+", default=-1)
    epoch: int = schema.int32("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = schema.int64("4+")
    first_offset: int = schema.int64("4+")


class PartitionData(Struct):
    partition_index: int = schema.int32("0+")
    error_code: int = schema.int16("0+")
    high_watermark: int = schema.int64("0+")
    last_stable_offset: int = schema.int64("4+", default=-1, ignorable=True)
    log_start_offset: int = schema.int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = schema.struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = schema.struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = schema.struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = schema.array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = schema.int32("11+", default=-1)
    records: schema.Records = schema.records("0+", nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = schema.string("0-12", ignorable=True)
    topic_id: bytes = schema.uuid("13+", ignorable=True)
    partitions: list[PartitionData] = schema.array(PartitionData, "0+")


class NodeEndpoint(Struct):
    node_id: int = schema.int32("16+")
    host: str = schema.string("16+")
    port: int = schema.int32("16+")
    rack: str | None = schema.string("16+", nullable="16+", default=None)


class FetchResponse(Message):
    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_SINCE = 12

    throttle_time_ms: int = schema.int32("1+", ignorable=True)
    error_code: int = schema.int16("7+", ignorable=True)
    session_id: int = schema.int32("7+")
    responses: list[FetchableTopicResponse] = schema.array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = schema.array(NodeEndpoint, "16+", tag=0)
