"""SaslHandshake (key 17), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class SaslHandshakeRequest(Message):
    API_KEY = 17
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = None

    mechanism: str = words.string("0+")


class SaslHandshakeResponse(Message):
    API_KEY = 17
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = None

    error_code: int = words.int16("0+")
    mechanisms: list[str] = words.array(words.string, "0+")
