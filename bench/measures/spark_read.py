"""Rows per second of our Spark source beside Spark's own connector, and what a partition more costs.

The program is the same but for one word. Every case is run once before it counts: what is measured is warm.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.load.throughput import Case
from bench.rows import Better, Goal, Row
from bench.scale import Scale
from bench.spark_sides import TOPICS, SparkSide, seconds_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "spark_read"
TITLE = "reading with Spark"
WARM = True
SPARK = True

_PARTITIONS = 4
_SMALL, _LARGE = 100, 1024
_TWICE_THE_CONNECTORS = Goal(ratio=2)
_TASKS = ("count", "aggregate", "to Parquet")
_SPREAD = (1, 10, 100)
_MORE = 2  # times the other measures' messages: planning takes as long for few rows, and is not what is asked
_WARMED: set[str] = set()  # by side and case: the first run compiles, starts workers and fills caches


def rounds(scale: Scale) -> int:
    return scale.rounds


def seconds(scale: Scale) -> float:
    return 5 + (len(_TASKS) + 1) * (scale.small_message_count + 6 * scale.large_message_count) / 500_000


def rows(_scale: Scale) -> list[Row]:
    found = [
        Row(
            _key(size, task),
            f"Spark source, {_size(size)}, {task}",
            "k rows/s",
            Better.MORE,
            _TWICE_THE_CONNECTORS,
            charted=size == _SMALL,
        )
        for size in (_SMALL, _LARGE)
        for task in _TASKS
    ]
    found += [
        Row(_spread_key(count), f"Spark source, {count} partition{'s' * (count > 1)}", "s", Better.LESS)
        for count in _SPREAD
    ]
    title = f"Spark source, each partition more, up to {_SPREAD[-1]}"
    return [*found, Row(f"{NAME}.partition", title, "ms", Better.LESS, Goal(ratio=1))]


def turn(side: SparkSide, scale: Scale) -> dict[str, float]:
    figures = {}
    counts = {_SMALL: _MORE * scale.small_message_count, _LARGE: _MORE * scale.large_message_count}
    for size, count in counts.items():
        topic = TOPICS.filled(side.broker, Case(size, "none", _PARTITIONS, count))
        for task in _TASKS:
            figures[_key(size, task)] = count / 1e3 / _seconds(side, topic, task, count)
    figures |= {_spread_key(count): _spread_seconds(side, scale, count) for count in _SPREAD}
    added = _SPREAD[-1] - _SPREAD[0]
    longer = figures[_spread_key(_SPREAD[-1])] - figures[_spread_key(_SPREAD[0])]
    figures[f"{NAME}.partition"] = max(longer, 0.0) / added * 1e3
    return figures


def _spread_seconds(side: SparkSide, scale: Scale, partitions: int) -> float:
    """As many records, whatever the number of partitions."""
    count = scale.small_message_count // 10
    topic = TOPICS.filled(side.broker, Case(_SMALL, "none", partitions, count))
    return _seconds(side, topic, "count", count)


def _seconds(side: SparkSide, topic: str, task: str, count: int) -> float:
    action = _action(side, topic, task, count)
    name = f"{side.name} {topic} {task}"
    if name not in _WARMED:
        action()
        _WARMED.add(name)
    return seconds_of(action)


def _action(side: SparkSide, topic: str, task: str, count: int) -> Callable[[], None]:
    def counted() -> None:
        _check(side.read(topic).count(), count)

    def aggregated() -> None:
        sums = (
            side.read(topic)
            .selectExpr("partition", "length(value) as size")
            .groupBy("partition")
            .sum("size")
            .collect()
        )
        assert sum(row[1] for row in sums) > 0

    def written() -> None:
        _parquet(side.read(topic), str(side.folder / "parquet"))

    return {"count": counted, "aggregate": aggregated, "to Parquet": written}[task]


def _parquet(frame: "DataFrame", path: str) -> None:
    frame.write.mode("overwrite").parquet(path)


def _check(found: int, expected: int) -> None:
    assert found == expected, f"{found} rows were read, {expected} had been written"


def _key(size: int, task: str) -> str:
    return f"{NAME}.{size}.{task}"


def _spread_key(partitions: int) -> str:
    return f"{NAME}.spread.{partitions}"


def _size(size: int) -> str:
    return "100 B" if size == _SMALL else "1 KiB"
