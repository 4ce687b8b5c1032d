"""ApiVersions (key 18), v0-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.wire import schema
from penstock.wire.schema import Message, Struct


class ApiVersionsRequest(Message):
    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3

    client_software_name: str = schema.string("3+", ignorable=True)
    client_software_version: str = schema.string("3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = schema.int16("0+")
    min_version: int = schema.int16("0+")
    max_version: int = schema.int16("0+")


class SupportedFeatureKey(Struct):
    name: str = schema.string("3+")
    min_version: int = schema.int16("3+")
    max_version: int = schema.int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = schema.string("3+")
    max_version_level: int = schema.int16("3+")
    min_version_level: int = schema.int16("3+")


class ApiVersionsResponse(Message):
    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3

    error_code: int = schema.int16("0+")
    api_keys: list[ApiVersion] = schema.array(ApiVersion, "0+")
    throttle_time_ms: int = schema.int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = schema.array(
        SupportedFeatureKey, "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = schema.int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = schema.array(
        FinalizedFeatureKey, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = schema.boolean("3+", tag=3, ignorable=True)
