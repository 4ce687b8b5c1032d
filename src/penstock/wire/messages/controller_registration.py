"""ControllerRegistration (key 70), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class Listener(Struct):
    name: str = words.string("0+")
    host: str = words.string("0+")
    port: int = words.uint16("0+")
    security_protocol: int = words.int16("0+")


class Feature(Struct):
    name: str = words.string("0+")
    min_supported_version: int = words.int16("0+")
    max_supported_version: int = words.int16("0+")


class ControllerRegistrationRequest(Message):
    API_KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    controller_id: int = words.int32("0+")
    incarnation_id: bytes = words.uuid("0+")
    zk_migration_ready: bool = words.boolean("0+")
    listeners: list[Listener] = words.array(Listener, "0+")
    features: list[Feature] = words.array(Feature, "0+")


class ControllerRegistrationResponse(Message):
    API_KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
