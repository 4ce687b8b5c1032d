"""Application logs at a steady rate, and now and then a new service that only fails.

Each such *trial* crosses the threshold of an alert with the records of one moment, so the time until its alert is the
pipeline's own and not that of a window that fills up.
"""

import contextlib
import json
import multiprocessing
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from typing import Any

from confluent_kafka import Consumer, Producer

_STEP_S = 0.02
_EVERY_S = 2.0  # between trials
_FAILURES = 40  # of a trial, at once: twice what an alert wants to see
_PATIENCE_S = 60
_PROCESSES = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def logs_with_trials(bootstrap: str, topic: str, *, rate: int, trials: int) -> Iterator[dict[str, float]]:
    """The times at which each trial was handed over, by the name of its service; they appear as they are made."""
    with _PROCESSES.Manager() as manager:
        made: Any = manager.dict()
        stop = _PROCESSES.Event()
        process = _PROCESSES.Process(target=_produce, args=(bootstrap, topic, rate, trials, made, stop))
        process.start()
        try:
            yield made
        finally:
            stop.set()
            process.join(_PATIENCE_S)
            if process.is_alive():
                process.kill()


def alert_delays_s(bootstrap: str, topic: str, made: dict[str, float], *, trials: int) -> list[float]:
    """From handing a trial over until a reader of committed records has its alert, for each trial."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    delays: dict[str, float] = {}
    try:
        until = time.monotonic() + _PATIENCE_S + trials * _EVERY_S
        while len(delays) < trials:
            assert time.monotonic() < until, f"{len(delays)} of {trials} alerts came"
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            now = time.time()
            service = json.loads(message.value())["service"]
            if service in made and service not in delays:
                delays[service] = now - made[service]
    finally:
        consumer.close()
    return list(delays.values())


def _produce(bootstrap: str, topic: str, rate: int, trials: int, made: dict[str, float], stop: Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    number = 0
    began = time.monotonic()
    while not stop.is_set():
        elapsed = time.monotonic() - began
        while number < elapsed * rate:
            producer.produce(topic, _line(number, f"service-{number % 8}", status=200), key=b"%d" % number)
            number += 1
        if len(made) < trials and elapsed > (len(made) + 1) * _EVERY_S:
            service = f"trial-{len(made)}"
            made[service] = time.time()
            for _ in range(_FAILURES):
                producer.produce(topic, _line(number, service, status=500), key=b"%d" % number)
                number += 1
        producer.poll(0)
        stop.wait(_STEP_S)
    producer.flush(_PATIENCE_S)


def _line(number: int, service: str, *, status: int) -> bytes:
    event = {
        "event_id": f"e{number}",
        "trace_id": f"t{number}",
        "span_id": f"s{number}",
        "parent_span_id": None,
        "service": service,
        "endpoint": "GET /",
        "status": status,
        "latency_ms": 12.5,
        "calls": 0,
        "event_time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "message": "ok",
    }
    return json.dumps(event).encode()
