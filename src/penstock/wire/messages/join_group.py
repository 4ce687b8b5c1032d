"""JoinGroup (key 11), v0-v9: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class JoinGroupRequestProtocol(Struct):
    name: str = words.string("0+")
    metadata: bytes = words.blob("0+")


class JoinGroupRequest(Message):
    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_SINCE = 6

    group_id: str = words.string("0+")
    session_timeout_ms: int = words.int32("0+")
    rebalance_timeout_ms: int = words.int32("1+", default=-1, ignorable=True)
    member_id: str = words.string("0+")
    group_instance_id: str | None = words.string("5+", nullable="5+", default=None)
    protocol_type: str = words.string("0+")
    protocols: list[JoinGroupRequestProtocol] = words.array(JoinGroupRequestProtocol, "0+")
    reason: str | None = words.string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = words.string("0+")
    group_instance_id: str | None = words.string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = words.blob("0+")


class JoinGroupResponse(Message):
    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_SINCE = 6

    throttle_time_ms: int = words.int32("2+", ignorable=True)
    error_code: int = words.int16("0+")
    generation_id: int = words.int32("0+", default=-1)
    protocol_type: str | None = words.string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = words.string("0+", nullable="7+")
    leader: str = words.string("0+")
    skip_assignment: bool = words.boolean("9+")
    member_id: str = words.string("0+")
    members: list[JoinGroupResponseMember] = words.array(JoinGroupResponseMember, "0+")
