"""DescribeConfigs (key 32), v1-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DescribeConfigsResource(Struct):
    resource_type: int = words.int8("0+")
    resource_name: str = words.string("0+")
    configuration_keys: list[str] | None = words.array(words.string, "0+", nullable="0+")


class DescribeConfigsRequest(Message):
    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4

    resources: list[DescribeConfigsResource] = words.array(DescribeConfigsResource, "0+")
    include_synonyms: bool = words.boolean("1+")
    include_documentation: bool = words.boolean("3+")


class DescribeConfigsSynonym(Struct):
    name: str = words.string("1+")
    value: str | None = words.string("1+", nullable="0+")
    source: int = words.int8("1+")


class DescribeConfigsResourceResult(Struct):
    name: str = words.string("0+")
    value: str | None = words.string("0+", nullable="0+")
    read_only: bool = words.boolean("0+")
    config_source: int = words.int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = words.boolean("0+")
    synonyms: list[DescribeConfigsSynonym] = words.array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = words.int8("3+", ignorable=True)
    documentation: str | None = words.string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    resource_type: int = words.int8("0+")
    resource_name: str = words.string("0+")
    configs: list[DescribeConfigsResourceResult] = words.array(DescribeConfigsResourceResult, "0+")


class DescribeConfigsResponse(Message):
    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4

    throttle_time_ms: int = words.int32("0+")
    results: list[DescribeConfigsResult] = words.array(DescribeConfigsResult, "0+")
