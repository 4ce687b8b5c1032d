"""DescribeConfigs (key 32), v1-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class DescribeConfigsResource(Struct):
    resource_type: int = schema.int8("0+")
    resource_name: str = schema.string("0+")
    configuration_keys: list[str] | None = schema.array(schema.string, "0+", nullable="0+")


class DescribeConfigsRequest(Message):
    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4

    resources: list[DescribeConfigsResource] = schema.array(DescribeConfigsResource, "0+")
    include_synonyms: bool = schema.boolean("1+")
    include_documentation: bool = schema.boolean("3+")


class DescribeConfigsSynonym(Struct):
    name: str = schema.string("1+")
    value: str | None = schema.string("1+", nullable="0+")
    source: int = schema.int8("1+")


class DescribeConfigsResourceResult(Struct):
    name: str = schema.string("0+")
    value: str | None = schema.string("0+", nullable="0+")
    read_only: bool = schema.boolean("0+")
    config_source: int = schema.int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = schema.boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = schema.array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = schema.int8("3+", ignorable=True)
    documentation: str | None = schema.string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = schema.int16("0+")
    error_message: str | None = schema.string("0+", nullable="0+")
    resource_type: int = schema.int8("0+")
    resource_name: str = schema.string("0+")
    configs: list[DescribeConfigsResourceResult] = schema.array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Message):
    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = schema.int32("0+")
    results: list[DescribeConfigsResult] = schema.array(DescribeConfigsResult, "0+")
