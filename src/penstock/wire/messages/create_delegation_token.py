"""CreateDelegationToken (key 38), v1-v3: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class CreatableRenewers(Struct):
    principal_type: str = words.string("0+")
    principal_name: str = words.string("0+")


class CreateDelegationTokenRequest(Message):
    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    owner_principal_type: str | None = words.string("3+", nullable="3+")
    owner_principal_name: str | None = words.string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = words.array(CreatableRenewers, "0+")
    max_lifetime_ms: int = words.int64("0+")


class CreateDelegationTokenResponse(Message):
    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    error_code: int = words.int16("0+")
    principal_type: str = words.string("0+")
    principal_name: str = words.string("0+")
    token_requester_principal_type: str = words.string("3+")
    token_requester_principal_name: str = words.string("3+")
    issue_timestamp_ms: int = words.int64("0+")
    expiry_timestamp_ms: int = words.int64("0+")
    max_timestamp_ms: int = words.int64("0+")
    token_id: str = words.string("0+")
    hmac: bytes = words.blob("0+")
    throttle_time_ms: int = words.int32("0+")
