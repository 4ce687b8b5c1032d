"""GetTelemetrySubscriptions (key 71), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class GetTelemetrySubscriptionsRequest(Message):
    API_KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    client_instance_id: bytes = words.uuid("0+")


class GetTelemetrySubscriptionsResponse(Message):
    API_KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    client_instance_id: bytes = words.uuid("0+")
    subscription_id: int = words.int32("0+")
    accepted_compression_types: list[int] = words.array(words.int8, "0+")
    push_interval_ms: int = words.int32("0+")
    telemetry_max_bytes: int = words.int32("0+")
    delta_temporality: bool = words.boolean("0+")
    requested_metrics: list[str] = words.array(words.string, "0+")
