"""Committed offsets: one partition of one group per request, several in flight on several connections."""

from bench.contestants import Contestant
from bench.load.commits import commit_frames, good_commit
from bench.load.raw import run_load
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "commits"
TITLE = "offset commits"
WARM = True

_CONNECTIONS = 8
_IN_FLIGHT = 8
_BEFORE_SHARE = 0.25  # of the time, uncounted: what is measured has been run before


def rounds(scale: Scale) -> int:
    return scale.rounds


def seconds(scale: Scale) -> float:
    return (1 + _BEFORE_SHARE) * scale.load_seconds + 1


def rows(_scale: Scale) -> list[Row]:
    return [
        Row(f"{NAME}.rate", "offset commits", "1/s", Better.MORE, Goal(ratio=1), charted=True),
        Row(f"{NAME}.cpu", "offset commits: broker CPU each", "µs", Better.LESS),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    usage = contestant.usage
    with contestant.topic(partitions=1) as name:
        frames = commit_frames(contestant.bootstrap, name, groups=_CONNECTIONS)
        for share in (_BEFORE_SHARE, 1.0):
            cpu_before = usage.cpu_seconds()
            load = run_load(
                contestant.bootstrap,
                frames,
                good_commit(name),
                connections=_CONNECTIONS,
                in_flight=_IN_FLIGHT,
                seconds=share * scale.load_seconds,
            )
            cpu_seconds = usage.cpu_seconds() - cpu_before
    return {f"{NAME}.rate": load.rate, f"{NAME}.cpu": cpu_seconds / load.requests * 1e6}
