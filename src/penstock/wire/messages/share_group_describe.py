"""ShareGroupDescribe (key 77), v1-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ShareGroupDescribeRequest(Message):
    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 0

    group_ids: list[str] = words.array(words.string, "0+")
    include_authorized_operations: bool = words.boolean("0+")


class TopicPartitions(Struct):
    topic_id: bytes = words.uuid("0+")
    topic_name: str = words.string("0+")
    partitions: list[int] = words.array(words.int32, "0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = words.array(TopicPartitions, "0+")


class Member(Struct):
    member_id: str = words.string("0+")
    rack_id: str | None = words.string("0+", nullable="0+", default=None)
    member_epoch: int = words.int32("0+")
    client_id: str = words.string("0+")
    client_host: str = words.string("0+")
    subscribed_topic_names: list[str] = words.array(words.string, "0+")
    assignment: Assignment = words.struct(Assignment, "0+")


class DescribedGroup(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+", default=None)
    group_id: str = words.string("0+")
    group_state: str = words.string("0+")
    group_epoch: int = words.int32("0+")
    assignment_epoch: int = words.int32("0+")
    assignor_name: str = words.string("0+")
    members: list[Member] = words.array(Member, "0+")
    authorized_operations: int = words.int32("0+", default=-2147483648)


class ShareGroupDescribeResponse(Message):
    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    groups: list[DescribedGroup] = words.array(DescribedGroup, "0+")
