"""UnregisterBroker (key 64), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class UnregisterBrokerRequest(Message):
    API_KEY = 64
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    broker_id: int = words.int32("0+")


class UnregisterBrokerResponse(Message):
    API_KEY = 64
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
