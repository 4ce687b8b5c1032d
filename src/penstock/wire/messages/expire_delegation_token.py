"""ExpireDelegationToken (key 40), v1-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class ExpireDelegationTokenRequest(Message):
    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2

    hmac: bytes = words.blob("0+")
    expiry_time_period_ms: int = words.int64("0+")


class ExpireDelegationTokenResponse(Message):
    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2

    error_code: int = words.int16("0+")
    expiry_timestamp_ms: int = words.int64("0+")
    throttle_time_ms: int = words.int32("0+")
