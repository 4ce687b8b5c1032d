"""Resident memory: of a broker that has just started, and of the same one after the throughput load."""

import time

from bench.contestants import Contestant
from bench.measures import throughput
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "memory"
TITLE = "memory, idle and after load"
WARM = False

_SETTLING_S = 3
_GOAL = Goal(ratio=0.125)


def rounds(_scale: Scale) -> int:
    return 1


def seconds(scale: Scale) -> float:
    return 10 + _SETTLING_S + throughput.seconds(scale)


def rows(_scale: Scale) -> list[Row]:
    return [
        Row(f"{NAME}.idle", "memory (RSS), idle", "MB", Better.LESS, _GOAL, charted=True),
        Row(f"{NAME}.loaded", "memory (RSS), after load", "MB", Better.LESS, _GOAL, charted=True),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    with Contestant(contestant.name, contestant.fresh) as alone:
        time.sleep(_SETTLING_S)  # what start-up leaves to be done in the background is done
        idle = alone.usage.resident_bytes()
        throughput.turn(alone, scale)
        loaded = alone.usage.resident_bytes()
    return {f"{NAME}.idle": idle / 1e6, f"{NAME}.loaded": loaded / 1e6}
