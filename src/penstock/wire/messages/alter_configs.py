"""AlterConfigs (key 33), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class AlterableConfig(Struct):
    name: str = schema.string("0+")
    value: str | None = schema.string("0+", nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = schema.int8("0+")
    resource_name: str = schema.string("0+")
    configs: list[AlterableConfig] = schema.array(AlterableConfig, "0+")


class AlterConfigsRequest(Message):
    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    resources: list[AlterConfigsResource] = schema.array(AlterConfigsResource, "0+")
    validate_only: bool = schema.boolean("0+")


class AlterConfigsResourceResponse(Struct):
    error_code: int = schema.int16("0+")
    error_message: str | None = schema.string("0+", nullable="0+")
    resource_type: int = schema.int8("0+")
    resource_name: str = schema.string("0+")


class AlterConfigsResponse(Message):
    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = schema.int32("0+")
    responses: list[AlterConfigsResourceResponse] = schema.array(AlterConfigsResourceResponse, "0+")
