"""ShareFetch (key 78), v1-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class AcknowledgementBatch(Struct):
    first_offset: int = words.int64("0+")
    last_offset: int = words.int64("0+")
    acknowledge_types: list[int] = words.array(words.int8, "0+")


class FetchPartition(Struct):
    partition_index: int = words.int32("0+")
    partition_max_bytes: int = words.int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = words.array(AcknowledgementBatch, "0+")


class FetchTopic(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[FetchPartition] = words.array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class ShareFetchRequest(Message):
    API_KEY = 78
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 0

    group_id: str | None = words.string("0+", nullable="0+", default=None)
    member_id: str | None = words.string("0+", nullable="0+")
    share_session_epoch: int = words.int32("0+")
    max_wait_ms: int = words.int32("0+")
    min_bytes: int = words.int32("0+")
    max_bytes: int = words.int32("0+", default=2147483647)
    max_records: int = words.int32("1+")
    batch_size: int = words.int32("1+")
    share_acquire_mode: int = words.int8("2+", ignorable=True)
    is_renew_ack: bool = words.boolean("2+")
    topics: list[FetchTopic] = words.array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = words.array(ForgottenTopic, "0+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")


class AcquiredRecords(Struct):
    first_offset: int = words.int64("0+")
    last_offset: int = words.int64("0+")
    delivery_count: int = words.int16("0+")


class PartitionData(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    acknowledge_error_code: int = words.int16("0+")
    acknowledge_error_message: str | None = words.string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = words.struct(LeaderIdAndEpoch, "0+")
    records: words.Records = words.records("0+", nullable="0")
    acquired_records: list[AcquiredRecords] = words.array(AcquiredRecords, "0+")


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class NodeEndpoint(Struct):
    node_id: int = words.int32("0+")
    host: str = words.string("0+")
    port: int = words.int32("0+")
    rack: str | None = words.string("0+", nullable="0+", default=None)


class ShareFetchResponse(Message):
    API_KEY = 78
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = words.int32("1+")
    responses: list[ShareFetchableTopicResponse] = words.array(ShareFetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = words.array(NodeEndpoint, "0+")
