"""DescribeDelegationToken (key 41), v1-v3: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = words.string("0+")
    principal_name: str = words.string("0+")


class DescribeDelegationTokenRequest(Message):
    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    owners: list[DescribeDelegationTokenOwner] | None = words.array(
        DescribeDelegationTokenOwner, "0+", nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = words.string("0+")
    principal_name: str = words.string("0+")


class DescribedDelegationToken(Struct):
    principal_type: str = words.string("0+")
    principal_name: str = words.string("0+")
    token_requester_principal_type: str = words.string("3+")
    token_requester_principal_name: str = words.string("3+")
    issue_timestamp: int = words.int64("0+")
    expiry_timestamp: int = words.int64("0+")
    max_timestamp: int = words.int64("0+")
    token_id: str = words.string("0+")
    hmac: bytes = words.blob("0+")
    renewers: list[DescribedDelegationTokenRenewer] = words.array(DescribedDelegationTokenRenewer, "0+")


class DescribeDelegationTokenResponse(Message):
    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    error_code: int = words.int16("0+")
    tokens: list[DescribedDelegationToken] = words.array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = words.int32("0+")
