"""AlterPartition (key 56), v2-v3: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class BrokerState(Struct):
    broker_id: int = words.int32("3+")
    broker_epoch: int = words.int64("3+", default=-1)


class PartitionData(Struct):
    partition_index: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")
    new_isr: list[int] = words.array(words.int32, "0-2")
    new_isr_with_epochs: list[BrokerState] = words.array(BrokerState, "3+")
    leader_recovery_state: int = words.int8("1+")
    partition_epoch: int = words.int32("0+")


class TopicData(Struct):
    topic_id: bytes = words.uuid("2+", ignorable=True)
    partitions: list[PartitionData] = words.array(PartitionData, "0+")


class AlterPartitionRequest(Message):
    API_KEY = 56
    VERSIONS = (2, 3)
    FLEXIBLE_SINCE = 0

    broker_id: int = words.int32("0+")
    broker_epoch: int = words.int64("0+", default=-1)
    topics: list[TopicData] = words.array(TopicData, "0+")


class PartitionDataResponse(Struct):
    partition_index: int = words.int32("0+")
    error_code: int = words.int16("0+")
    leader_id: int = words.int32("0+")
    leader_epoch: int = words.int32("0+")
    isr: list[int] = words.array(words.int32, "0+")
    leader_recovery_state: int = words.int8("1+", ignorable=True)
    partition_epoch: int = words.int32("0+")


class TopicDataResponse(Struct):
    topic_id: bytes = words.uuid("2+", ignorable=True)
    partitions: list[PartitionDataResponse] = words.array(PartitionDataResponse, "0+")


class AlterPartitionResponse(Message):
    API_KEY = 56
    VERSIONS = (2, 3)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    topics: list[TopicDataResponse] = words.array(TopicDataResponse, "0+")
