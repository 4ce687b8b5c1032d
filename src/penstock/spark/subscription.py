"""The partitions that a query reads, and their log start and end offsets. On the driver."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal, SettingError, UserError
from penstock.base.ids import ZERO_ID, TopicPartition
from penstock.base.settings import Settings, unknown_name
from penstock.client.client import Client
from penstock.client.cluster import KnownTopic
from penstock.client.errors import AnsweredError
from penstock.client.offsets import EARLIEST, LATEST, NO_OFFSET, AtOffset, AtTime, find_offsets
from penstock.spark.options import (
    ASSIGN,
    ISOLATION_LEVEL,
    READ_COMMITTED,
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
    SUBSCRIBE,
    SUBSCRIBE_PATTERN,
)
from penstock.spark.positions import AtEnd, Place, Positions, assigned_partitions


class FoundPartitions(NamedTuple):
    """The existing partitions, with the ids of their topics."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, str]


class TopicSelection:
    """The selection by one of `subscribe`, `subscribePattern` and `assign`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.committed_only = settings[ISOLATION_LEVEL] == READ_COMMITTED
        self._topics = _topic_names(settings[SUBSCRIBE])
        self._pattern = _pattern(settings[SUBSCRIBE_PATTERN])
        assign = settings[ASSIGN]
        self._assigned = None if assign is None else assigned_partitions(assign)

    def __str__(self) -> str:
        chosen = next(each for each in (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN) if self._settings[each])
        return f"{chosen.name} {self._settings[chosen]}"

    async def find(self, client: Client) -> FoundPartitions:
        """The existing partitions; UserError for a topic or an assigned partition that does not exist."""
        topics = await self._find_topics(client)
        ids = {each.name: each.topic_id.hex() for each in topics if each.topic_id != ZERO_ID}
        there = {TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions}
        if self._assigned is not None:
            for each in self._assigned:
                if each not in there:
                    raise UserError(f"assign names {each}, which does not exist")
            return FoundPartitions(tuple(self._assigned), ids)
        return FoundPartitions(tuple(sorted(there)), ids)

    def among(
        self, there: Sequence[TopicPartition], visible: Sequence[TopicPartition], *, where: str
    ) -> list[TopicPartition]:
        """The selected ones of partitions that were found without a broker; the `visible` ones if none is selected."""
        if self._pattern is not None:
            return [each for each in visible if self._pattern.fullmatch(each.topic)]
        known = {each.topic for each in there}
        for topic in self._topics:
            if topic not in known:
                hint = str(unknown_name("topic", topic, known)).partition(";")[2]
                raise UserError(f"there is no topic {topic} in {where}{';' + hint if hint else ''}")
        for each in self._assigned or ():
            if each not in there:
                raise UserError(f"assign names {each}, which is not in {where}")
        if self._assigned is not None:
            return list(self._assigned)
        return [each for each in there if each.topic in self._topics] if self._topics else list(visible)

    async def _find_topics(self, client: Client) -> list[KnownTopic]:
        if self._pattern is not None:
            pattern = self._pattern
            every = await client.retry(lambda: client.refresh(None))
            return [each for each in every if pattern.fullmatch(each.name) and not each.is_internal]
        names = self._topics or sorted({each.topic for each in self._assigned or ()})
        topics = await client.retry(lambda: client.refresh(names))
        for each in topics:
            if each.refusal is not None and not each.partitions:
                raise await _not_there(client, each, each.refusal)
        return topics

    async def ends(
        self, client: Client, partitions: Iterable[TopicPartition], *, timestamp: int
    ) -> Positions:
        """The offsets where logs begin (EARLIEST) or end (LATEST), at the reader's isolation level."""
        return await find_offsets(
            client, dict.fromkeys(partitions, timestamp), committed_only=self.committed_only
        )

    async def locate(
        self, client: Client, places: Mapping[TopicPartition, Place], *, later_than_all: str | None = None
    ) -> Positions:
        """The offsets of places. A time later than all records is the end of the log if `later_than_all`, by default
        startingOffsetsByTimestampStrategy, is "latest"; else an error."""
        asked = {
            each: place.timestamp_ms if isinstance(place, AtTime) else place.timestamp
            for each, place in places.items()
            if isinstance(place, AtTime | AtEnd)
        }
        found = await find_offsets(client, asked, committed_only=self.committed_only) if asked else {}
        beyond = sorted(each for each, offset in found.items() if offset == NO_OFFSET)
        if beyond:
            strategy = later_than_all or self._settings[STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY]
            if strategy != "latest":
                raise UserError(
                    f"{beyond[0]} has no record of the starting time or later; "
                    "with startingOffsetsByTimestampStrategy=latest it is read from its end on"
                )
            found |= await self.ends(client, beyond, timestamp=LATEST)
        return found | {each: place.offset for each, place in places.items() if isinstance(place, AtOffset)}


async def log_starts(client: Client, partitions: Iterable[TopicPartition]) -> Positions:
    """Where logs begin."""
    asked = dict.fromkeys(partitions, EARLIEST)
    return await find_offsets(client, asked) if asked else {}


def _topic_names(raw: str | None) -> list[str]:
    return [] if raw is None else sorted({name.strip() for name in raw.split(",") if name.strip()})


def _pattern(raw: str | None) -> re.Pattern[str] | None:
    if raw is None:
        return None
    try:
        return re.compile(raw)
    except re.error as error:
        raise SettingError(f"subscribePattern cannot be {raw!r}: {error}") from None


async def _not_there(client: Client, topic: KnownTopic, refusal: Refusal) -> UserError | AnsweredError:
    if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return AnsweredError(refusal, f"topic {topic.name}")
    names = [each.name for each in await client.refresh(None) if not each.is_internal]
    hint = str(unknown_name("topic", topic.name, names)).partition(";")[2]
    hint = hint or f" `penstock topic create {topic.name}` creates it"
    return UserError(f"topic {topic.name} does not exist on {client.bootstrap_servers};{hint}")
