"""SaslAuthenticate (key 36), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class SaslAuthenticateRequest(Message):
    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    auth_bytes: bytes = words.blob("0+")


class SaslAuthenticateResponse(Message):
    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    auth_bytes: bytes = words.blob("0+")
    session_lifetime_ms: int = words.int64("1+", ignorable=True)
