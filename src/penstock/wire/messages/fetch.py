"""Fetch (key 1), v4-v18: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ReplicaState(Struct):
    replica_id: int = words.int32("15+", default=-1)
    replica_epoch: int = words.int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = words.int32("0+")
    current_leader_epoch: int = words.int32("9+", default=-1, ignorable=True)
    fetch_offset: int = words.int64("0+")
    last_fetched_epoch: int = words.int32("12+", default=-1)
    log_start_offset: int = words.int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = words.int32("0+")
    replica_directory_id: bytes = words.uuid("17+", tag=0, ignorable=True)
    high_watermark: int = words.int64("18+", tag=1, default=9223372036854775807, ignorable=True)


class FetchTopic(Struct):
    topic: str = words.string("0-12", ignorable=True)
    topic_id: bytes = words.uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = words.array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    topic: str = words.string("7-12", ignorable=True)
    topic_id: bytes = words.uuid("13+", ignorable=True)
    partitions: list[int] = words.array(words.int32, "7+")


class FetchRequest(Message):
    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_SINCE = 12

    cluster_id: str | None = words.string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = words.int32("0-14", default=-1)
    replica_state: ReplicaState | None = words.struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = words.int32("0+")
    min_bytes: int = words.int32("0+")
    max_bytes: int = words.int32("3+", default=2147483647, ignorable=True)
    isolation_level: int = words.int8("4+", ignorable=True)
    session_id: int = words.int32("7+", ignorable=True)
    session_epoch: int = words.int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = words.array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = words.array(ForgottenTopic, "7+")
    rack_id: str = words.string("11+", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int = words.int32("12+", default=-1)
    end_offset: int = words.int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = words.int32("12+", default=-1)
    leader_epoch: int = words.int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = words.int64("0+", default=-1)
    epoch: int = words.int32("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = words.int64("4+")
    first_offset: int = words.int64("4+")


class PartitionData(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    high_watermark: int = words.int64("0+")
    last_stable_offset: int = words.int64("4+", default=-1, ignorable=True)
    log_start_offset: int = words.int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = words.struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = words.struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = words.struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = words.array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = words.int32("11+", default=-1)
    records: words.Records = words.records("0+", nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = words.string("0-12", ignorable=True)
    topic_id: bytes = words.uuid("13+", ignorable=True)
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class NodeEndpoint(Struct):
    node_id: int = words.int32("16+")
    host: str = words.string("16+")
    port: int = words.int32("16+")
    rack: str | None = words.string("16+", nullable="16+", default=None)


class FetchResponse(Message):
    API_KEY = 1
    VERSIONS = (4, 18)
    FLEXIBLE_SINCE = 12

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    error_code: int = words.int16("7+", ignorable=True)
    session_id: int = words.int32("7+")
    responses: list[FetchableTopicResponse] = words.array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = words.array(NodeEndpoint, "16+", tag=0)
