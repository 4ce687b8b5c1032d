"""Produce and consume at full speed with librdkafka, and what that costs the broker.

In most cases the client is the slower side: what it used itself is in the raw results.
"""

from bench.contestants import Contestant
from bench.load.throughput import Case, Flow, consume, produce
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "throughput"
TITLE = "produce and consume throughput"
WARM = True

_PARTITIONS = (1, 6)
_SMALL, _LARGE = 100, 1024
_AT_LEAST_KAFKAS = Goal(ratio=1)
_HALF_OF_KAFKAS = Goal(ratio=0.5)


def rounds(scale: Scale) -> int:
    return min(scale.rounds, 2)


def seconds(scale: Scale) -> float:
    return len(cases(scale)) * (1 + scale.small_message_count / 300_000)


def cases(scale: Scale) -> list[Case]:
    counts = {_SMALL: scale.small_message_count, _LARGE: scale.large_message_count}
    return [
        Case(size, codec, partitions, count)
        for size, count in counts.items()
        for codec in scale.codecs
        for partitions in _PARTITIONS
    ]


def rows(scale: Scale) -> list[Row]:
    found = []
    for direction in ("produce", "consume"):
        for case in cases(scale):
            title = f"{direction} {_name(case)}"
            key = _key(direction, case)
            unit = "k msg/s" if case.value_bytes == _SMALL else "MB/s"
            charted = case.partitions == _PARTITIONS[-1]
            found.append(Row(f"{key}.rate", title, unit, Better.MORE, _AT_LEAST_KAFKAS, charted=charted))
            found.append(
                Row(
                    f"{key}.cpu",
                    f"{title}: broker CPU",
                    "s/GB",
                    Better.LESS,
                    _HALF_OF_KAFKAS,
                    charted=charted and case.codec == "none",
                )
            )
    return found


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    figures: dict[str, float] = {}
    usage = contestant.usage
    for case in cases(scale):
        with contestant.topic(partitions=case.partitions) as name:
            for direction, run in (("produce", produce), ("consume", consume)):
                cpu_before = usage.cpu_seconds()
                flow = run(contestant.bootstrap, name, case)
                cpu_seconds = usage.cpu_seconds() - cpu_before
                figures |= _figures(_key(direction, case), case, flow, cpu_seconds)
    return figures


def _figures(key: str, case: Case, flow: Flow, cpu_seconds: float) -> dict[str, float]:
    amount = case.message_count / 1e3 if case.value_bytes == _SMALL else case.total_bytes / 1e6
    return {
        f"{key}.rate": amount / flow.seconds,
        f"{key}.cpu": cpu_seconds / (case.total_bytes / 1e9),
        f"{key}.client": flow.client_cpu_seconds / flow.seconds,
    }


def _key(direction: str, case: Case) -> str:
    return f"{NAME}.{direction}.{case.value_bytes}.{case.codec}.{case.partitions}"


def _name(case: Case) -> str:
    size = "100 B" if case.value_bytes == _SMALL else "1 KiB"
    codec = "" if case.codec == "none" else f" {case.codec}"
    return f"{size}{codec}, {case.partitions} partition{'s' * (case.partitions > 1)}"
