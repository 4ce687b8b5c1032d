"""DescribeProducers (key 61), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class TopicRequest(Struct):
    name: str = words.string("0+")
    partition_indexes: list[int] = words.array(words.int32, "0+")


class DescribeProducersRequest(Message):
    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    topics: list[TopicRequest] = words.array(TopicRequest, "0+")


class ProducerState(Struct):
    producer_id: int = words.int64("0+")
    producer_epoch: int = words.int32("0+")
    last_sequence: int = words.int32("0+", default=-1)
    last_timestamp: int = words.int64("0+", default=-1)
    coordinator_epoch: int = words.int32("0+")
    current_txn_start_offset: int = words.int64("0+", default=-1)


class PartitionResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = words.array(ProducerState, "0+")


class TopicResponse(Struct):
    name: str = words.string("0+")
    partitions: list[PartitionResponse] = words.array(PartitionResponse, "0+")


class DescribeProducersResponse(Message):
    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    topics: list[TopicResponse] = words.array(TopicResponse, "0+")
