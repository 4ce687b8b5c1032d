"""Heartbeat (key 12), v0-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class HeartbeatRequest(Message):
    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4

    group_id: str = words.string("0+")
    generation_id: int = words.int32("0+")
    member_id: str = words.string("0+")
    group_instance_id: str | None = words.string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message):
    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    error_code: int = words.int16("0+")
