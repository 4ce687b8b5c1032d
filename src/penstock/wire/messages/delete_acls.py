"""DeleteAcls (key 31), v1-v3: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class DeleteAclsFilter(Struct):
    resource_type_filter: int = words.int8("0+")
    resource_name_filter: str | None = words.string("0+", nullable="0+")
    pattern_type_filter: int = words.int8("1+", default=3)
    principal_filter: str | None = words.string("0+", nullable="0+")
    host_filter: str | None = words.string("0+", nullable="0+")
    operation: int = words.int8("0+")
    permission_type: int = words.int8("0+")


class DeleteAclsRequest(Message):
    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    filters: list[DeleteAclsFilter] = words.array(DeleteAclsFilter, "0+")


class DeleteAclsMatchingAcl(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    resource_type: int = words.int8("0+")
    resource_name: str = words.string("0+")
    pattern_type: int = words.int8("1+", default=3)
    principal: str = words.string("0+")
    host: str = words.string("0+")
    operation: int = words.int8("0+")
    permission_type: int = words.int8("0+")


class DeleteAclsFilterResult(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = words.array(DeleteAclsMatchingAcl, "0+")


class DeleteAclsResponse(Message):
    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2

    throttle_time_ms: int = words.int32("0+")
    filter_results: list[DeleteAclsFilterResult] = words.array(DeleteAclsFilterResult, "0+")
