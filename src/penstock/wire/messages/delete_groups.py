"""DeleteGroups (key 42), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DeleteGroupsRequest(Message):
    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    groups_names: list[str] = words.array(words.string, "0+")


class DeletableGroupResult(Struct):
    group_id: str = words.string("0+")
    error_code: int = words.int16("0+")


class DeleteGroupsResponse(Message):
    API_KEY = 42
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    results: list[DeletableGroupResult] = words.array(DeletableGroupResult, "0+")
