"""DescribeGroups (key 15), v0-v6: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DescribeGroupsRequest(Message):
    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 5

    groups: list[str] = words.array(words.string, "0+")
    include_authorized_operations: bool = words.boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = words.string("0+")
    group_instance_id: str | None = words.string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = words.string("0+")
    client_host: str = words.string("0+")
    member_metadata: bytes = words.blob("0+")
    member_assignment: bytes = words.blob("0+")


class DescribedGroup(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("6+", nullable="6+", default=None)
    group_id: str = words.string("0+")
    group_state: str = words.string("0+")
    protocol_type: str = words.string("0+")
    protocol_data: str = words.string("0+")
    members: list[DescribedGroupMember] = words.array(DescribedGroupMember, "0+")
    authorized_operations: int = words.int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message):
    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 5

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    groups: list[DescribedGroup] = words.array(DescribedGroup, "0+")
