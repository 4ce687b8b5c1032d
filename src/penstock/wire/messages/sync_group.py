"""SyncGroup (key 14), v0-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class SyncGroupRequestAssignment(Struct):
    member_id: str = words.string("0+")
    assignment: bytes = words.blob("0+")


class SyncGroupRequest(Message):
    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4

    group_id: str = words.string("0+")
    generation_id: int = words.int32("0+")
    member_id: str = words.string("0+")
    group_instance_id: str | None = words.string("3+", nullable="3+", default=None)
    protocol_type: str | None = words.string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = words.string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = words.array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Message):
    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    error_code: int = words.int16("0+")
    protocol_type: str | None = words.string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = words.string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = words.blob("0+")
