"""PushTelemetry (key 72), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class PushTelemetryRequest(Message):
    API_KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    client_instance_id: bytes = words.uuid("0+")
    subscription_id: int = words.int32("0+")
    terminating: bool = words.boolean("0+")
    compression_type: int = words.int8("0+")
    metrics: bytes = words.blob("0+")


class PushTelemetryResponse(Message):
    API_KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
