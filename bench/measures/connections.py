"""Many connections: thousands that are idle, and hundreds that each send one small request after another."""

import contextlib
from collections.abc import Iterator

from bench.contestants import Contestant
from bench.load.frames import batch_of, good_answer, produce_frames
from bench.load.raw import connect, parse_address, run_load
from bench.rows import Better, Goal, Row, percentile
from bench.scale import Scale
from penstock.schema.codec import encode
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.api_versions import ApiVersionsRequest

NAME = "connections"
TITLE = "thousands of connections"
WARM = True

_PARTITIONS = 6


def rounds(scale: Scale) -> int:
    return min(scale.rounds, 2)


def seconds(scale: Scale) -> float:
    return scale.load_seconds + 3 + scale.idle_connections / 1000


def rows(scale: Scale) -> list[Row]:
    title = f"{scale.busy_connections} busy + {scale.idle_connections:,} idle connections"
    return [
        Row(f"{NAME}.rate", title, "1/s", Better.MORE, Goal(ratio=1), charted=True),
        Row(f"{NAME}.cpu", f"{title}: broker CPU each", "µs", Better.LESS),
        Row(f"{NAME}.p99", f"{title}: p99", "ms", Better.LESS_AT_THE_TAIL),
        Row(f"{NAME}.memory", "memory for an idle connection", "kB", Better.LESS),
    ]


def turn(contestant: Contestant, scale: Scale) -> dict[str, float]:
    usage = contestant.usage
    with contestant.topic(partitions=_PARTITIONS) as name:
        frames = produce_frames(name, range(_PARTITIONS), batch_of(records=1, value_bytes=100))
        resident_before = usage.resident_bytes()
        with _idle(contestant.bootstrap, scale.idle_connections):
            resident_bytes = usage.resident_bytes() - resident_before
            cpu_before = usage.cpu_seconds()
            load = run_load(
                contestant.bootstrap,
                [frames[index % _PARTITIONS] for index in range(scale.busy_connections)],
                good_answer(name),
                connections=scale.busy_connections,
                in_flight=1,
                seconds=scale.load_seconds,
            )
            cpu_seconds = usage.cpu_seconds() - cpu_before
    return {
        f"{NAME}.rate": load.rate,
        f"{NAME}.cpu": cpu_seconds / load.requests * 1e6,
        f"{NAME}.p99": percentile(sorted(load.latencies_ms), 0.99),
        f"{NAME}.memory": max(0.0, resident_bytes / scale.idle_connections / 1e3),
    }


@contextlib.contextmanager
def _idle(bootstrap: str, count: int) -> Iterator[None]:
    """Connections that have asked once and then stay."""
    header = RequestHeader(ApiVersionsRequest.API_KEY, 0, 1, "idle")
    question = b"".join(frame_request(header, encode(ApiVersionsRequest(), 0)))
    address = parse_address(bootstrap)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            idle = stack.enter_context(connect(address))
            idle.sendall(question)
            assert idle.recv(65536), "the broker closed an idle connection"
        yield
