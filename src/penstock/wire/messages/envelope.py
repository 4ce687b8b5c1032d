"""Envelope (key 58), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message


class EnvelopeRequest(Message):
    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    request_data: bytes = words.blob("0+")
    request_principal: bytes | None = words.blob("0+", nullable="0+")
    client_host_address: bytes = words.blob("0+")


class EnvelopeResponse(Message):
    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    response_data: bytes | None = words.blob("0+", nullable="0+", default=None)
    error_code: int = words.int16("0+")
