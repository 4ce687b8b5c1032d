"""ListConfigResources (key 74), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class ListConfigResourcesRequest(Message):
    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    resource_types: list[int] = schema.array(schema.int8, "1+")


class ConfigResource(Struct):
    resource_name: str = schema.string("0+")
    resource_type: int = schema.int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message):
    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = schema.int32("0+")
    error_code: int = schema.int16("0+")
    config_resources: list[ConfigResource] = schema.array(ConfigResource, "0+")
