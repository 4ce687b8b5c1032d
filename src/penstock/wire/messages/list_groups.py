"""ListGroups (key 16), v0-v5: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ListGroupsRequest(Message):
    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    states_filter: list[str] = words.array(words.string, "4+")
    types_filter: list[str] = words.array(words.string, "5+")


class ListedGroup(Struct):
    group_id: str = words.string("0+")
    protocol_type: str = words.string("0+")
    group_state: str = words.string("4+", ignorable=True)
    group_type: str = words.string("5+", ignorable=True)


class ListGroupsResponse(Message):
    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3

    throttle_time_ms: int = words.int32("1+", ignorable=True)
    error_code: int = words.int16("0+")
    groups: list[ListedGroup] = words.array(ListedGroup, "0+")
