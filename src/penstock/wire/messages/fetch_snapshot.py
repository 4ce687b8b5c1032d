"""FetchSnapshot (key 59), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class SnapshotId(Struct):
    end_offset: int = words.int64("0+")
    epoch: int = words.int32("0+")


class PartitionSnapshot(Struct):
    partition: int = words.int32("0+")
    current_leader_epoch: int = words.int32("0+")
    snapshot_id: SnapshotId = words.struct(SnapshotId, "0+")
    position: int = words.int64("0+")
    replica_directory_id: bytes = words.uuid("1+", tag=0, ignorable=True)


class TopicSnapshot(Struct):
    name: str = words.string("0+")
    partitions: list[PartitionSnapshot] = words.array(PartitionSnapshot, "0+")


class FetchSnapshotRequest(Message):
    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    cluster_id: str | None = words.string("0+", nullable="0+", tag=0, default=None)
    replica_id: int = words.int32("0+", default=-1)
    max_bytes: int = words.int32("0+", default=2147483647)
    topics: list[TopicSnapshot] = words.array(TopicSnapshot, "0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")


class PartitionSnapshotResponse(Struct):
    index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    snapshot_id: SnapshotId = words.struct(SnapshotId, "0+")
    current_leader: LeaderIdAndEpoch | None = words.struct(LeaderIdAndEpoch, "0+", tag=0)
    size: int = words.int64("0+")
    position: int = words.int64("0+")
    unaligned_records: words.Records = words.records("0+")


class TopicSnapshotResponse(Struct):
    name: str = words.string("0+")
    partitions: list[PartitionSnapshotResponse] = words.array(PartitionSnapshotResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = words.int32("1+")
    host: str = words.string("1+")
    port: int = words.uint16("1+")


class FetchSnapshotResponse(Message):
    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+", ignorable=True)
    error_code: int = words.int16("0+")
    topics: list[TopicSnapshotResponse] = words.array(TopicSnapshotResponse, "0+")
    node_endpoints: list[NodeEndpoint] = words.array(NodeEndpoint, "1+", tag=0)
