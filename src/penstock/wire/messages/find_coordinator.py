"""FindCoordinator (key 10), v0-v6: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class FindCoordinatorRequest(Message):
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3

    key: str = schema.string("0-3")
    key_type: int = schema.int8("1+")
    coordinator_keys: list[str] = schema.array(schema.string, "4+")


class Coordinator(Struct):
    key: str = schema.string("4+")
    node_id: int = schema.int32("4+")
    host: str = schema.string("4+")
    port: int = schema.int32("4+")
    error_code: int = schema.int16("4+")
    error_message: str | None = schema.string("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message):
    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3

    throttle_time_ms: int = schema.int32("1+", ignorable=True)
    error_code: int = schema.int16("0-3")
    error_message: str | None = schema.string("1-3", nullable="1-3", ignorable=True)
    node_id: int = schema.int32("0-3")
    host: str = schema.string("0-3")
    port: int = schema.int32("0-3")
    coordinators: list[Coordinator] = schema.array(Coordinator, "4+")
