"""ShareGroupHeartbeat (key 76), v1-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ShareGroupHeartbeatRequest(Message):
    API_KEY = 76
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 0

    group_id: str = words.string("0+")
    member_id: str = words.string("0+")
    member_epoch: int = words.int32("0+")
    rack_id: str | None = words.string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = words.array(words.string, "0+", nullable="0+", default=None)


class TopicPartitions(Struct):
    topic_id: bytes = words.uuid("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = words.array(TopicPartitions, "0+")


class ShareGroupHeartbeatResponse(Message):
    API_KEY = 76
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    member_id: str | None = words.string("0+", nullable="0+", default=None)
    member_epoch: int = words.int32("0+")
    heartbeat_interval_ms: int = words.int32("0+")
    assignment: Assignment | None = words.struct(Assignment, "0+", nullable="0+", default=None)
