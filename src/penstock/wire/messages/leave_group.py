"""LeaveGroup (key 13), v0-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class MemberIdentity(Struct):
    member_id: str = words.string("3+")
    group_instance_id: str | None = words.string("3+", nullable="3+", default=None)
    reason: str | None = words.string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message):
    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4

    group_id: str = words.string("0+")
    member_id: str = words.string("0-2")
    members: list[MemberIdentity] = words.array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = words.string("3+")
    group_instance_id: str | None = words.string("3+", nullable="3+")
    error_code: int = words.int16("3+")


class LeaveGroupResponse(Message):
    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    error_code: int = words.int16("0+")
    members: list[MemberResponse] = words.array(MemberResponse, "3+")
