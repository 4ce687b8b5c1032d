"""DescribeUserScramCredentials (key 50), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class UserName(Struct):
    name: str = words.string("0+")


class DescribeUserScramCredentialsRequest(Message):
    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    users: list[UserName] | None = words.array(UserName, "0+", nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = words.int8("0+")
    iterations: int = words.int32("0+")


class DescribeUserScramCredentialsResult(Struct):
    user: str = words.string("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = words.array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(Message):
    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = words.array(DescribeUserScramCredentialsResult, "0+")
