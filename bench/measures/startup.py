"""From starting the process to the first answered request, on an empty data directory."""

import time

from bench.contestants import Contestant
from bench.rows import Better, Goal, Row
from bench.scale import Scale
from peers.kafka import ApacheKafka
from penstock.client.blocking import BlockingClient
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

NAME = "startup"
TITLE = "start-up"
WARM = False


def rounds(scale: Scale) -> int:
    return scale.start_rounds


def seconds(_scale: Scale) -> float:
    return 5


def rows(_scale: Scale) -> list[Row]:
    return [
        Row(f"{NAME}.ready", "start to first answer", "s", Better.LESS, Goal(ratio=0.1), charted=True),
        Row(f"{NAME}.first", "the same, Kafka's format included", "s", Better.LESS),
    ]


def turn(contestant: Contestant, _scale: Scale) -> dict[str, float]:
    broker = contestant.fresh()
    began = time.perf_counter()
    if isinstance(broker, ApacheKafka):
        broker.format()
    formatted = time.perf_counter()
    broker.start()
    try:
        with BlockingClient(broker.bootstrap) as blocking:
            blocking.run(blocking.client.ask_any(ApiVersionsRequest(), ApiVersionsResponse))
        answered = time.perf_counter()
    finally:
        broker.__exit__(None, None, None)
    return {f"{NAME}.ready": answered - formatted, f"{NAME}.first": answered - began}
