"""BrokerRegistration (key 62), v0-v4: the request and the response.

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


class BrokerRegistrationRequest(Message):
    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 0

    broker_id: int = words.int32("0+")
    cluster_id: str = words.string("0+")
    incarnation_id: bytes = words.uuid("0+")
    listeners: list[Listener] = words.array(Listener, "0+")
    features: list[Feature] = words.array(Feature, "0+")
    rack: str | None = words.string("0+", nullable="0+")
    is_migrating_zk_broker: bool = words.boolean("1+")
    log_dirs: list[bytes] = words.array(words.uuid, "2+", ignorable=True)
    previous_broker_epoch: int = words.int64("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message):
    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    broker_epoch: int = words.int64("0+", default=-1)
