"""Offsets in options and checkpoints. Pure.

    Place       where to begin or end, before it is resolved: an end of the log, an offset, a time
    Positions   the next offset to read, per partition
    Reached     the content of a stream's checkpoint: positions, topic ids, the consumer group of its progress

Checkpoints of Spark's own Kafka source can be read too.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from penstock.base.errors import SettingError, UserError
from penstock.base.ids import TopicPartition
from penstock.base.settings import Setting, Settings
from penstock.client.offsets import EARLIEST, LATEST, AtOffset, AtTime
from penstock.spark import options

Positions: TypeAlias = dict[TopicPartition, int]

_FORMAT: Final = 1
_OFFSET_MAX: Final = 2**63 - 1


class AtEnd(NamedTuple):
    """One of the two ends of a log, by its timestamp in ListOffsets."""

    timestamp: int


Place: TypeAlias = AtOffset | AtTime | AtEnd

AT_EARLIEST: Final = AtEnd(EARLIEST)
AT_LATEST: Final = AtEnd(LATEST)


class Places(NamedTuple):
    """Where each partition begins, or ends: by partition, else the same for all."""

    default: Place | None
    named: Mapping[TopicPartition, Place]

    def of(self, partitions: Iterable[TopicPartition], about: str) -> dict[TopicPartition, Place]:
        """The place of each partition; SettingError if one is missing, or an unknown one is named."""
        wanted = list(partitions)
        extra = sorted(set(self.named) - set(wanted))
        if extra:
            raise SettingError(f"{about} names {_listed(extra)}, which this query does not read")
        missing = [each for each in wanted if each not in self.named]
        if self.default is None and missing:
            raise SettingError(f"{about} says nothing about {_listed(sorted(missing))}")
        places = {}
        for each in wanted:
            place = self.named.get(each, self.default)
            assert place is not None
            places[each] = place
        return places


def _listed(partitions: list[TopicPartition], *, most: int = 5) -> str:
    more = f" and {len(partitions) - most} more" if len(partitions) > most else ""
    return ", ".join(str(each) for each in partitions[:most]) + more


def starting_places(settings: Settings, *, default: Place, not_allowed: Place | None = None) -> Places:
    """Where a read begins: options by time override those by offset, those for all partitions the others."""
    return _places(
        settings,
        timestamp=options.STARTING_TIMESTAMP,
        by_timestamp=options.STARTING_OFFSETS_BY_TIMESTAMP,
        offsets=options.STARTING_OFFSETS,
        default=default,
        not_allowed=not_allowed,
    )


def ending_places(settings: Settings) -> Places:
    """Where a batch ends."""
    return _places(
        settings,
        timestamp=options.ENDING_TIMESTAMP,
        by_timestamp=options.ENDING_OFFSETS_BY_TIMESTAMP,
        offsets=options.ENDING_OFFSETS,
        default=AT_LATEST,
        not_allowed=AT_EARLIEST,
    )


def _places(
    settings: Settings,
    *,
    timestamp: Setting[str | None],
    by_timestamp: Setting[str | None],
    offsets: Setting[Any],
    default: Place,
    not_allowed: Place | None,
) -> Places:
    if settings[timestamp] is not None:
        return Places(AtTime(_whole(timestamp, settings[timestamp])), {})
    given = settings[by_timestamp]
    if given is not None:
        numbers = _numbers_by_partition(by_timestamp, given)
        return Places(None, {each: AtTime(number) for each, number in numbers.items()})
    word = settings[offsets]
    if word is None:
        return Places(default, {})
    place = {"earliest": AT_EARLIEST, "latest": AT_LATEST}.get(word.lower())
    if place is not None:
        if place == not_allowed:
            raise offsets.error(word, "a batch reads from the beginning of the log towards its end")
        return Places(place, {})
    named = {
        each: _place(offsets, number, not_allowed)
        for each, number in _numbers_by_partition(offsets, word).items()
    }
    return Places(None, named)


def _place(option: Setting[Any], number: int, not_allowed: Place | None) -> Place:
    place: Place = AtEnd(number) if number in (EARLIEST, LATEST) else AtOffset(number)
    if place == not_allowed or number < EARLIEST:
        raise option.error(number, "an offset is expected")
    return place


def _whole(option: Setting[Any], raw: object) -> int:
    number = int(raw) if isinstance(raw, str) and raw.strip().lstrip("-").isdigit() else raw
    if isinstance(number, bool) or not isinstance(number, int) or not -_OFFSET_MAX <= number <= _OFFSET_MAX:
        raise option.error(raw, "a whole number is expected")
    return number


def _numbers_by_partition(option: Setting[Any], raw: str) -> dict[TopicPartition, int]:
    topics = _json_object(option, raw)
    numbers = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise option.error(raw, 'an object per topic is expected, as in {"topic": {"0": 23}}')
        for partition, number in partitions.items():
            numbers[TopicPartition(topic, _partition(option, partition))] = _whole(option, number)
    return numbers


def _partition(option: Setting[Any], raw: object) -> int:
    number = _whole(option, raw)
    if number < 0:
        raise option.error(raw, "a partition's number is expected")
    return number


def assigned_partitions(raw: str) -> list[TopicPartition]:
    """What the option `assign` names."""
    partitions = []
    for topic, indexes in _json_object(options.ASSIGN, raw).items():
        if not isinstance(indexes, list):
            raise options.ASSIGN.error(raw, 'a list per topic is expected, as in {"topic": [0, 1]}')
        partitions += [TopicPartition(topic, _partition(options.ASSIGN, index)) for index in indexes]
    if not partitions:
        raise options.ASSIGN.error(raw, "at least one partition is expected")
    return sorted(set(partitions))


def _json_object(option: Setting[Any], raw: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except json.JSONDecodeError as error:
        raise option.error(raw, f"JSON is expected: {error}") from None
    if not isinstance(value, dict):
        raise option.error(raw, "a JSON object is expected")
    return value


class Reached(NamedTuple):
    """The progress of a stream."""

    positions: Positions
    topic_ids: Mapping[str, str]  # in hexadecimal; empty for brokers that are too old to have topic ids
    group: str | None

    def recreated_topics(self, topic_ids: Mapping[str, str]) -> set[str]:
        """The topics whose ids have changed: they were deleted and created again."""
        return {
            topic for topic, topic_id in topic_ids.items() if self.topic_ids.get(topic, topic_id) != topic_id
        }

    def to_json(self) -> dict[str, Any]:
        offsets: dict[str, dict[str, int]] = {}
        for partition in sorted(self.positions):
            by_index = offsets.setdefault(partition.topic, {})
            by_index[str(partition.partition)] = self.positions[partition]
        # Sorted keys: Spark compares offsets as text.
        return {
            "penstock": _FORMAT,
            "group": self.group,
            "topics": dict(sorted(self.topic_ids.items())),
            "offsets": offsets,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Reached":
        """Parse the output of `to_json`, or of Spark's own Kafka source; UserError if it is neither."""
        try:
            number = value.get("penstock")
            if isinstance(number, int):
                if number > _FORMAT:
                    raise UserError(
                        f"the checkpoint was written by a newer Penstock (format {number}); this one knows {_FORMAT}"
                    )
                return cls(_read_offsets(value["offsets"]), dict(value["topics"]), value["group"])
            return cls(_read_offsets(value), {}, None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"the checkpoint holds no offsets of topics: {json.dumps(value)[:200]}"
            ) from error


def _read_offsets(offsets: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        TopicPartition(topic, int(index)): int(offset)
        for topic, by_index in offsets.items()
        for index, offset in by_index.items()
    }
