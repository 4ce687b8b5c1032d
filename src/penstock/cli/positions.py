"""Positions in a topic as the user writes them, and their offsets.

beginning, end         the ends of each partition
42                     an offset; beyond an end, that end
-10                    that many records before the end
2026-11-16T08:30       a time, in the local time zone unless it names one; a date alone is its midnight
1763281800000ms        a time in milliseconds since 1970
-90s, -15m, -1h, -2d   that long ago
"""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple, TypeAlias

from penstock.base.ids import TopicPartition
from penstock.cli.parsing import UsageError
from penstock.client.client import Client
from penstock.client.offsets import EARLIEST, LATEST, NO_OFFSET, AtOffset, AtTime, find_offsets


class End(Enum):
    BEGINNING = "beginning"
    END = "end"


class BeforeEnd(NamedTuple):
    record_count: int


Position: TypeAlias = End | AtOffset | BeforeEnd | AtTime

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RELATIVE = re.compile(r"-(\d+(?:\.\d+)?)(ms|s|m|h|d)\Z")
_MILLISECONDS = re.compile(r"(\d+)ms\Z")
_TIME_MAX_MS = 2**63 - 1


def parse_position(text: str, *, now_ms: int) -> Position:
    """Parse a position; UsageError with examples if it is none."""
    if text in (End.BEGINNING.value, End.END.value):
        return End(text)
    if re.fullmatch(r"\d+", text):
        return AtOffset(int(text))
    if re.fullmatch(r"-\d+", text):
        return BeforeEnd(-int(text))
    if relative := _RELATIVE.match(text):
        return AtTime(max(0, now_ms - round(float(relative[1]) * _UNITS_MS[relative[2]])))
    if milliseconds := _MILLISECONDS.match(text):
        return AtTime(min(int(milliseconds[1]), _TIME_MAX_MS))
    try:
        return AtTime(max(0, round(datetime.fromisoformat(text).timestamp() * 1000)))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a position in a topic; write beginning, end, an offset, -10, -1h or 2026-11-16T08:30"
        ) from None


async def resolve(
    client: Client,
    partitions: Sequence[TopicPartition],
    position: Position,
    *,
    committed_only: bool = False,
) -> dict[TopicPartition, int]:
    """The offset of a position in each partition; with `committed_only`, a partition ends at its last stable
    offset.
    """
    starts = await find_offsets(client, dict.fromkeys(partitions, EARLIEST))
    if position is End.BEGINNING:
        return starts
    ends = await find_offsets(client, dict.fromkeys(partitions, LATEST), committed_only=committed_only)
    if isinstance(position, AtTime):
        found = await find_offsets(client, dict.fromkeys(partitions, position.timestamp_ms))
        return {each: ends[each] if found[each] == NO_OFFSET else found[each] for each in partitions}
    if isinstance(position, AtOffset):
        return {each: min(max(position.offset, starts[each]), ends[each]) for each in partitions}
    if isinstance(position, BeforeEnd):
        return {each: max(starts[each], ends[each] - position.record_count) for each in partitions}
    return ends
