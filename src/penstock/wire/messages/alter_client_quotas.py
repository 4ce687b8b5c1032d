"""AlterClientQuotas (key 49), v0-v1: the request and the response.

Written by tools/generate_messages.py from the protocol's schema; change that, not this.
"""

from penstock.schema import words
from penstock.schema.words import Message, Struct


class EntityData(Struct):
    entity_type: str = words.string("0+")
    entity_name: str | None = words.string("0+", nullable="0+")


class OpData(Struct):
    key: str = words.string("0+")
    value: float = words.float64("0+")
    remove: bool = words.boolean("0+")


class EntryData(Struct):
    entity: list[EntityData] = words.array(EntityData, "0+")
    ops: list[OpData] = words.array(OpData, "0+")


class AlterClientQuotasRequest(Message):
    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    entries: list[EntryData] = words.array(EntryData, "0+")
    validate_only: bool = words.boolean("0+")


class EntryDataResponse(Struct):
    error_code: int = words.int16("0+")
    error_message: str | None = words.string("0+", nullable="0+")
    entity: list[EntityData] = words.array(EntityData, "0+")


class AlterClientQuotasResponse(Message):
    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1

    throttle_time_ms: int = words.int32("0+")
    entries: list[EntryDataResponse] = words.array(EntryDataResponse, "0+")
