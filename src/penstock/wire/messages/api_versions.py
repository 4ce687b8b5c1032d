"""ApiVersions (key 18), v0-v4: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ApiVersionsRequest(Message):
    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3

    client_software_name: str = words.string("3+", ignorable=True)
    client_software_version: str = words.string("3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = words.int16("0+")
    min_version: int = words.int16("0+")
    max_version: int = words.int16("0+")


class SupportedFeatureKey(Struct):
    name: str = words.string("3+")
    min_version: int = words.int16("3+")
    max_version: int = words.int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = words.string("3+")
    max_version_level: int = words.int16("3+")
    min_version_level: int = words.int16("3+")


class ApiVersionsResponse(Message):
    API_KEY = 18
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3

    error_code: int = words.int16("0+")
    api_keys: list[ApiVersion] = words.array(ApiVersion, "0+")
    throttle_time_ms: int = words.int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = words.array(
        SupportedFeatureKey, "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = words.int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = words.array(
        FinalizedFeatureKey, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = words.boolean("3+", tag=3, ignorable=True)
