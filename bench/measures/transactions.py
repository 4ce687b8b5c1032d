"""Transactions of one record each: by one producer and by a hundred, as bytes, and by one of librdkafka's."""

from bench.contestants import Contestant
from bench.load.transactional import commit_raw, commit_with_librdkafka
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "transactions"
TITLE = "transactions"
WARM = True

_PRODUCERS = (1, 100)
_PARTITIONS = 6
_BEFORE_SHARE = 0.25  # of the time, uncounted: what is measured has been run before


def rounds(scale: Scale) -> int:
    return scale.rounds


def seconds(scale: Scale) -> float:
    return (1 + _BEFORE_SHARE) * (len(_PRODUCERS) + 1) * scale.load_seconds + 2


def rows(_scale: Scale) -> list[Row]:
    found = []
    for count in _PRODUCERS:
        title = f"transactions, {count} producer{'s' * (count > 1)}"
        found += [
            Row(_key(count), title, "1/s", Better.MORE, Goal(ratio=1), charted=True),
            Row(f"{_key(count)}.cpu", f"{title}: broker CPU each", "µs", Better.LESS),
        ]
    return [
        *found,
        Row(_key("librdkafka"), "transactions, 1 producer of librdkafka", "1/s", Better.MORE, Goal(ratio=1)),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    usage = contestant.usage
    found = {}
    with contestant.topic(partitions=_PARTITIONS) as name:
        for count in _PRODUCERS:
            for share in (_BEFORE_SHARE, 1.0):
                cpu_before = usage.cpu_seconds()
                committed = commit_raw(
                    contestant.bootstrap,
                    name,
                    producers=count,
                    partitions=_PARTITIONS,
                    seconds=share * scale.load_seconds,
                )
                cpu_seconds = usage.cpu_seconds() - cpu_before
            found[_key(count)] = committed.rate
            found[f"{_key(count)}.cpu"] = cpu_seconds / committed.transactions * 1e6
        committed = commit_with_librdkafka(contestant.bootstrap, name, seconds=scale.load_seconds)
        found[_key("librdkafka")] = committed.rate
    return found


def _key(who: int | str) -> str:
    return f"{NAME}.{who}"
