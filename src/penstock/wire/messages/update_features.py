"""UpdateFeatures (key 57), v0-v2: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class FeatureUpdateKey(Struct):
    feature: str = words.string("0+")
    max_version_level: int = words.int16("0+")
    allow_downgrade: bool = words.boolean("0")
    upgrade_type: int = words.int8("1+", default=1)


class UpdateFeaturesRequest(Message):
    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    timeout_ms: int = words.int32("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = words.array(FeatureUpdateKey, "0+")
    validate_only: bool = words.boolean("1+")


class UpdatableFeatureResult(Struct):
    feature: str = words.string("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")


class UpdateFeaturesResponse(Message):
    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = words.array(UpdatableFeatureResult, "0-1", ignorable=True)
