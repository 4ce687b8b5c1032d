"""IncrementalAlterConfigs (key 44), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class AlterableConfig(Struct):
    name: str = words.string("0+")
    config_operation: int = words.int8("0+")
    value: str | None = words.string("0+", nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = words.int8("0+")
    resource_name: str = words.string("0+")
    configs: list[AlterableConfig] = words.array(AlterableConfig, "0+")


class IncrementalAlterConfigsRequest(Message):
    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    resources: list[AlterConfigsResource] = words.array(AlterConfigsResource, "0+")
    validate_only: bool = words.boolean("0+")


class AlterConfigsResourceResponse(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    resource_type: int = words.int8("0+")
    resource_name: str = words.string("0+")


class IncrementalAlterConfigsResponse(Message):
    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    throttle_time_ms: int = words.int32("0+")
    responses: list[AlterConfigsResourceResponse] = words.array(AlterConfigsResourceResponse, "0+")
