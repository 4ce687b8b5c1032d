"""DescribeClientQuotas (key 48), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class ComponentData(Struct):
    entity_type: str = words.string("0+")
    match_type: int = words.int8("0+")
    match: str | None = words.string("0+", nullable="0+")


class DescribeClientQuotasRequest(Message):
    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    components: list[ComponentData] = words.array(ComponentData, "0+")
    strict: bool = words.boolean("0+")


class EntityData(Struct):
    entity_type: str = words.string("0+")
    entity_name: str | None = words.string("0+", nullable="0+")


class ValueData(Struct):
    key: str = words.string("0+")
    value: float = words.float64("0+")


class EntryData(Struct):
    entity: list[EntityData] = words.array(EntityData, "0+")
    values: list[ValueData] = words.array(ValueData, "0+")


class DescribeClientQuotasResponse(Message):
    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    throttle_time_ms: int = words.int32("0+")
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    entries: list[EntryData] | None = words.array(EntryData, "0+", nullable="0+")
