"""Rows per second of our Spark sink, in both of its guarantees, beside Spark's own connector, which is at least once.

The rows lie in memory before the clock runs. Every case is run once before it counts.
"""

from typing import TYPE_CHECKING, Final

from bench.rows import Better, Goal, Row
from bench.scale import Scale
from bench.spark_sides import CORES, SparkSide, seconds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "spark_write"
TITLE = "writing with Spark"
WARM = True
SPARK = True

_PARTITIONS = 4
_SMALL, _LARGE = 100, 1024
_AT_LEAST_ONCE: Final = "at least once"
_EXACTLY_ONCE: Final = "exactly once"
_GUARANTEES: Final = {_AT_LEAST_ONCE: "at-least-once", _EXACTLY_ONCE: "exactly-once"}
_EXACTLY_ONCE_SHARE = 0.7
_WARMED: set[tuple[str, int, str]] = set()


def rounds(scale: Scale) -> int:
    return scale.rounds


def seconds(scale: Scale) -> float:
    return 5 + 2 * (scale.small_message_count + 4 * scale.large_message_count) / 250_000


def rows(_scale: Scale) -> list[Row]:
    found = []
    for size in (_SMALL, _LARGE):
        for guarantee in _GUARANTEES:
            goal = Goal(ratio=1)
            if guarantee == _EXACTLY_ONCE:
                goal = Goal(ratio=_EXACTLY_ONCE_SHARE, of_row=_key(size, _AT_LEAST_ONCE))
            title = f"Spark sink, {'100 B' if size == _SMALL else '1 KiB'}, {guarantee}"
            found.append(
                Row(_key(size, guarantee), title, "k rows/s", Better.MORE, goal, charted=size == _SMALL)
            )
    return found


def turn(side: SparkSide, scale: Scale) -> dict[str, float]:
    figures = {}
    for size, count in ((_SMALL, scale.small_message_count // 2), (_LARGE, scale.large_message_count // 2)):
        frame = _rows(side, size, count)
        try:
            for guarantee in _GUARANTEES if side.is_ours else (_AT_LEAST_ONCE,):
                figures[_key(size, guarantee)] = count / 1e3 / _seconds(side, frame, size, guarantee)
        finally:
            frame.unpersist(blocking=True)
    return figures


def _rows(side: SparkSide, size: int, count: int) -> "DataFrame":
    frame = side.spark.range(count, numPartitions=CORES).selectExpr(
        "cast(cast(id as string) as binary) as key",
        f"cast(rpad(concat('record ', id, ' '), {size}, 'penstock ') as binary) as value",
    )
    frame.persist()
    assert frame.count() == count
    return frame


def _seconds(side: SparkSide, frame: "DataFrame", size: int, guarantee: str) -> float:
    options = {"penstock.guarantee": _GUARANTEES[guarantee]} if side.is_ours else {}
    before = (side.name, size, guarantee)
    if before not in _WARMED:
        with side.broker.topic(partitions=_PARTITIONS) as topic:
            side.write(frame, topic, **options)
        _WARMED.add(before)
    with side.broker.topic(partitions=_PARTITIONS) as topic:
        return seconds_of(lambda: side.write(frame, topic, **options))


def _key(size: int, guarantee: str) -> str:
    return f"{NAME}.{size}.{guarantee}"
