"""ElectLeaders (key 43), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class TopicPartitions(Struct):
    topic: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class ElectLeadersRequest(Message):
    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    election_type: int = words.int8("1+")
    topic_partitions: list[TopicPartitions] | None = words.array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = words.int32("0+", default=60000)


class PartitionResult(Struct):
    partition_id: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = words.string("0+")
    partition_result: list[PartitionResult] = words.array(PartitionResult, "0+")


class ElectLeadersResponse(Message):
    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("1+")
    replica_election_results: list[ReplicaElectionResult] = words.array(ReplicaElectionResult, "0+")
