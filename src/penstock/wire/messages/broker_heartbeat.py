"""BrokerHeartbeat (key 63), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class BrokerHeartbeatRequest(Message):
    API_KEY = 63
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    broker_id: int = words.int32("0+")
    broker_epoch: int = words.int64("0+", default=-1)
    current_metadata_offset: int = words.int64("0+")
    want_fence: bool = words.boolean("0+")
    want_shut_down: bool = words.boolean("0+")
    offline_log_dirs: list[bytes] = words.array(words.uuid, "1+", tag=0)
    cordoned_log_dirs: list[bytes] | None = words.array(words.uuid, "2+", nullable="2+", tag=1, default=None)


class BrokerHeartbeatResponse(Message):
    API_KEY = 63
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    is_caught_up: bool = words.boolean("0+")
    is_fenced: bool = words.boolean("0+", default=True)
    should_shut_down: bool = words.boolean("0+")
