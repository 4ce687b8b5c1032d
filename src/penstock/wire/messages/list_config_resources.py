"""ListConfigResources (key 74), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ListConfigResourcesRequest(Message):
    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    resource_types: list[int] = words.array(words.int8, "1+")


class ConfigResource(Struct):
    resource_name: str = words.string("0+")
    resource_type: int = words.int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message):
    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    config_resources: list[ConfigResource] = words.array(ConfigResource, "0+")
