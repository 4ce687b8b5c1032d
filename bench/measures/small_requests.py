"""One-record produce requests, several in flight on several connections: what a single request costs."""

from bench.contestants import Contestant
from bench.load.frames import batch_of, good_answer, produce_frames
from bench.load.raw import run_load
from bench.rows import Better, Goal, Row
from bench.scale import Scale

NAME = "small"
TITLE = "one-record requests"
WARM = True

_CONNECTIONS = 8
_IN_FLIGHT = 8
_CPU_MAX_US = 35


def rounds(scale: Scale) -> int:
    return scale.rounds


def seconds(scale: Scale) -> float:
    return scale.load_seconds + 1


def rows(_scale: Scale) -> list[Row]:
    return [
        Row(f"{NAME}.rate", "one-record requests", "1/s", Better.MORE, Goal(ratio=5), charted=True),
        Row(
            f"{NAME}.cpu",
            "one-record requests: broker CPU each",
            "µs",
            Better.LESS,
            Goal(limit=_CPU_MAX_US),
            charted=True,
        ),
        Row(f"{NAME}.client", "one-record requests: client CPU", "cores", Better.LESS, compared=False),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    usage = contestant.usage
    with contestant.topic(partitions=_CONNECTIONS) as name:
        frames = produce_frames(name, range(_CONNECTIONS), batch_of(records=1, value_bytes=100))
        cpu_before = usage.cpu_seconds()
        load = run_load(
            contestant.bootstrap,
            frames,
            good_answer(name),
            connections=_CONNECTIONS,
            in_flight=_IN_FLIGHT,
            seconds=scale.load_seconds,
        )
        cpu_seconds = usage.cpu_seconds() - cpu_before
    return {
        f"{NAME}.rate": load.rate,
        f"{NAME}.cpu": cpu_seconds / load.requests * 1e6,
        f"{NAME}.client": load.client_cpu_seconds / load.seconds,
    }
