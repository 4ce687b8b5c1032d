"""Narrows the ranges of a batch read by the query's filters. On the driver.

Filters on `topic`, `partition`, `offset` and the lower end of `timestamp` make ranges smaller. Spark still applies
every filter to the rows, so a range may be larger than needed, and never smaller: records are in the order of their
offsets, not of their timestamps, so an upper bound of `timestamp` has no effect.

Off unless the user turns it on: Spark 4.3 uses the ranges that one query's filters left for every query of the same
DataFrame.
"""

import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from penstock.base.ids import TopicPartition
from penstock.base.settings import Settings
from penstock.spark.options import FILTER_PUSHDOWN
from penstock.spark.planning import OffsetRange

Comparison: TypeAlias = (
    EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Narrowing(NamedTuple):
    """The partitions and offsets that pass the filters of a query."""

    topics: frozenset[str] | None = None  # None: all
    partitions: frozenset[int] | None = None
    offset_min: int | None = None
    offset_max: int | None = None
    timestamp_ms_min: int | None = None

    def keeps(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def narrowed(self, whole: OffsetRange) -> OffsetRange:
        """Empty if nothing is left."""
        start, end = whole.start, whole.end
        if self.offset_min is not None:
            start = min(max(start, self.offset_min), end)
        if self.offset_max is not None:
            end = max(min(end, self.offset_max + 1), start)
        return OffsetRange(whole.partition, start, end)


# The module that Spark's planning worker runs if, and only if, filter pushdown is enabled.
_PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def takes_filters(settings: Settings) -> bool:
    """Whether a reader should take filters in this session, with these options.

    Spark (4.3) plans a read with the filters of one query and then uses that plan for every other query of the same
    DataFrame, so filters are taken only where the user has asked for it. And it refuses a reader that takes them while
    its own setting is off, as it is by default, which shows nowhere but in the module that its worker runs.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    pushes = _PUSHING_WORKER in sys.modules or getattr(main, "name", None) == _PUSHING_WORKER
    return pushes and settings[FILTER_PUSHDOWN]


class TakesFilters:
    """A mixin for readers that get the filters of a query before they plan; sets `_narrowing`."""

    _narrowing: Narrowing

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Return all filters, so that Spark applies them to the rows too."""
        self._narrowing = narrow(filters)
        return filters


def narrow(filters: Iterable[Filter]) -> Narrowing:
    """Combine the supported filters."""
    left = Narrowing()
    for each in filters:
        attribute = getattr(each, "attribute", None)
        apply = _BY_COLUMN.get(attribute[0]) if attribute is not None and len(attribute) == 1 else None
        if apply is not None:
            left = apply(left, each)
    return left


def _words(filter_: Filter) -> frozenset[Any] | None:
    """The values of an equality or IN filter; None for other filters."""
    if isinstance(filter_, EqualTo | EqualNullSafe):
        return frozenset((filter_.value,))
    return frozenset(filter_.value) if isinstance(filter_, In) else None


def _both(left: frozenset[Any] | None, right: frozenset[Any] | None) -> frozenset[Any] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _by_topic(left: Narrowing, filter_: Filter) -> Narrowing:
    return left._replace(topics=_both(left.topics, _words(filter_)))


def _by_partition(left: Narrowing, filter_: Filter) -> Narrowing:
    words = _words(filter_)
    if words is None:
        return left
    return left._replace(partitions=_both(left.partitions, words))


def _by_offset(left: Narrowing, filter_: Filter) -> Narrowing:
    lowest, highest = _bounds(filter_, step=1)
    if lowest is not None and (left.offset_min is None or lowest > left.offset_min):
        left = left._replace(offset_min=lowest)
    if highest is not None and (left.offset_max is None or highest < left.offset_max):
        left = left._replace(offset_max=highest)
    return left


def _by_timestamp(left: Narrowing, filter_: Filter) -> Narrowing:
    value = getattr(filter_, "value", None)
    if not isinstance(value, datetime) or not isinstance(
        filter_, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual
    ):
        return left
    # Values without a time zone are in the session's; if that is unknown, the filter is ignored.
    if value.tzinfo is None:
        return left
    lowest = int((value - _EPOCH).total_seconds() * 1000) - 1  # rounded down, without float errors
    if left.timestamp_ms_min is None or lowest > left.timestamp_ms_min:
        left = left._replace(timestamp_ms_min=max(0, lowest))
    return left


def _bounds(filter_: Filter, *, step: int) -> tuple[int | None, int | None]:
    value = getattr(filter_, "value", None)
    if isinstance(filter_, In):
        numbers = [each for each in filter_.value if isinstance(each, int)]
        return (
            (min(numbers), max(numbers)) if len(numbers) == len(filter_.value) and numbers else (None, None)
        )
    if isinstance(value, bool) or not isinstance(value, int):
        return None, None
    match filter_:
        case EqualTo() | EqualNullSafe():
            return value, value
        case GreaterThan():
            return value + step, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value - step
        case LessThanOrEqual():
            return None, value
        case _:
            return None, None


_BY_COLUMN: Final[dict[str, Callable[[Narrowing, Filter], Narrowing]]] = {
    "topic": _by_topic,
    "partition": _by_partition,
    "offset": _by_offset,
    "timestamp": _by_timestamp,
}
