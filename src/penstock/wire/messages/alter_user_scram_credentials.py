"""AlterUserScramCredentials (key 51), v0-v0: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ScramCredentialDeletion(Struct):
    name: str = words.string("0+")
    mechanism: int = words.int8("0+")


class ScramCredentialUpsertion(Struct):
    name: str = words.string("0+")
    mechanism: int = words.int8("0+")
    iterations: int = words.int32("0+")
    salt: bytes = words.blob("0+")
    salted_password: bytes = words.blob("0+")


class AlterUserScramCredentialsRequest(Message):
    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    deletions: list[ScramCredentialDeletion] = words.array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = words.array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResult(Struct):
    user: str = words.string("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Message):
    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    results: list[AlterUserScramCredentialsResult] = words.array(AlterUserScramCredentialsResult, "0+")
