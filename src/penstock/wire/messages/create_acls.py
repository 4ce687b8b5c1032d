"""CreateAcls (key 30), v1-v3: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class AclCreation(Struct):
    resource_type: int = words.int8("0+")
    resource_name: str = words.string("0+")
    resource_pattern_type: int = words.int8("1+", default=3)
    principal: str = words.string("0+")
    host: str = words.string("0+")
    operation: int = words.int8("0+")
    permission_type: int = words.int8("0+")


class CreateAclsRequest(Message):
    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    creations: list[AclCreation] = words.array(AclCreation, "0+")


class AclCreationResult(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")


class CreateAclsResponse(Message):
    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    results: list[AclCreationResult] = words.array(AclCreationResult, "0+")
