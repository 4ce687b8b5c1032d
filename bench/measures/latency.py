"""From one end to the other at 1,000 messages a second: librdkafka's producer to librdkafka's consumer."""

from bench.contestants import Contestant
from bench.load.paced import Latencies, measure_latency
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "latency"
TITLE = "latency at 1,000 messages a second"
WARM = True

RATE = 1000
_GOAL = Goal(ratio=0.25)


def rounds(scale: Scale) -> int:
    return scale.rounds


def seconds(scale: Scale) -> float:
    return scale.latency_seconds + 3


def rows(_scale: Scale) -> list[Row]:
    return latency_rows(NAME, "latency at 1,000 msg/s")


def latency_rows(key: str, title: str) -> list[Row]:
    return [
        Row(f"{key}.p50", f"{title}: p50", "ms", Better.LESS_AT_THE_TAIL, charted=True),
        Row(f"{key}.p99", f"{title}: p99", "ms", Better.LESS_AT_THE_TAIL, _GOAL, charted=True),
        Row(f"{key}.p999", f"{title}: p99.9", "ms", Better.LESS_AT_THE_TAIL),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    with contestant.topic(partitions=1) as name:
        found = measure_latency(contestant.bootstrap, name, rate=RATE, seconds=scale.latency_seconds)
    return figures(NAME, found)


def figures(key: str, found: Latencies) -> dict[str, float]:
    return {f"{key}.p50": found.p50, f"{key}.p99": found.p99, f"{key}.p999": found.p999}
