"""FindCoordinator (key 10), v0-v6: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class FindCoordinatorRequest(Message):
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3

    key: str = words.string("0-3")
    key_type: int = words.int8("1+")
    coordinator_keys: list[str] = words.array(words.string, "4+")


class Coordinator(Struct):
    key: str = words.string("4+")
    node_id: int = words.int32("4+")
    host: str = words.string("4+")
    port: int = words.int32("4+")
    error_code: int = words.int16("4+")
    error_message: str | None = words.string("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message):
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    error_code: int = words.int16("0-3")
    error_message: str | None = words.string("1-3", nullable="1-3", ignorable=True)
    node_id: int = words.int32("0-3")
    host: str = words.string("0-3")
    port: int = words.int32("0-3")
    coordinators: list[Coordinator] = words.array(Coordinator, "4+")
