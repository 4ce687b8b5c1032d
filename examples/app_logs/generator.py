"""Makes application logs, the same ones for the same seed, and sends them to a topic.

    python -m app_logs.generator --rate 200 --duration 60        # with examples/ on the path

`lines` is the core: no clock, no chance but the seed's. It follows requests through the services of `logs`, at a rate
with bursts, with times in which one service fails, and spoils a small share on purpose: broken JSON, missing fields,
wrong types, events that come late, and events that never come, so that their traces stay incomplete. Every line knows
what it is, so that a test can say what the pipelines must find. `send` paces lines by the clock and counts those that
the broker acknowledged.
"""

import argparse
import asyncio
import json
import math
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, NamedTuple

from app_logs.logs import (
    ALLOWED_LATENESS_S,
    EARLY,
    ENDPOINTS,
    ENTRIES,
    ENTRY_SERVICE,
    ERROR_STATUS,
    LATE,
    MALFORMED,
    TOPIC,
    TRACE_TIMEOUT_S,
    VALID,
    Endpoint,
)
from penstock.client.client import Client, ClientSettings
from penstock.client.producer import NewRecord, Producer
from penstock.client.topics import NewTopic, create_topics
from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import RealLoop, run

_ENTRY_NAMES: Final = [name for name, _ in ENTRIES]
_ENTRY_WEIGHTS: Final = [weight for _, weight in ENTRIES]
_CHUNK_LINES: Final = 4_000  # sent together at most; the next ones wait for the answer
_PACE_MS: Final = 20  # how long a line that is due may wait for others
_SHIPPING_MS: Final = 200  # until a logger sends what it has, at most


@dataclass(frozen=True)
class Plan:
    """How much, how bursty, how bad. Times count from the first line."""

    events_per_second: float = 200.0
    burst_factor: float = 10.0
    burst_every_s: float = 30.0  # a burst ends each such stretch
    burst_s: float = 5.0
    failing_service: str = "payments"
    failing_every_s: float = 40.0  # a failure begins in the middle of each such stretch
    failing_s: float = 10.0
    failing_error_share: float = 0.6
    failing_slowness: float = 6.0
    error_share: float = 0.005
    malformed_share: float = 0.004
    late_share: float = 0.003
    early_share: float = 0.001
    unsent_share: float = 0.001

    def rate_at(self, time_ms: float) -> float:
        """Events per second."""
        if time_ms / 1000 % self.burst_every_s >= self.burst_every_s - self.burst_s:
            return self.events_per_second * self.burst_factor
        return self.events_per_second

    def is_failing(self, service: str, time_ms: float) -> bool:
        since_s = time_ms / 1000 % self.failing_every_s - self.failing_every_s / 2
        return service == self.failing_service and 0 <= since_s < self.failing_s


class Line(NamedTuple):
    """One log line: when its record is sent, what is in it, and what it is: valid, malformed, late or early."""

    sent_ms: int
    trace_id: str
    value: bytes
    kind: str
    event: dict[str, Any]  # as it was before it was spoiled


def lines(seed: int, *, count: int | None = None, start_ms: int, plan: Plan | None = None) -> Iterator[Line]:
    """Log lines in the order in which they are sent, `count` of them or without end.

    The first `start_ms` of a run moves all its times; nothing else changes with it.
    """
    made = _ordered(seed, start_ms, plan or Plan())
    if count is None:
        yield from made
        return
    for _, line in zip(range(count), made, strict=False):
        yield line


def _ordered(seed: int, start_ms: int, plan: Plan) -> Iterator[Line]:
    """The spans of requests that overlap, one after the other. What waits is what a second of requests writes."""
    random = Random(seed)
    waiting: list[tuple[float, int, _Span]] = []
    begin_ms = 0.0
    number = 0
    while True:
        spans = _request(random, plan, begin_ms)
        for span in spans:
            number += 1
            heappush(waiting, (span.sent_ms, number, span))
        begin_ms += len(spans) * 1000 / plan.rate_at(begin_ms)
        # Later requests send nothing before they begin.
        while waiting and waiting[0][0] <= begin_ms:
            _, order, span = heappop(waiting)
            line = _line(random, plan, span, f"{seed:x}-{order:x}", start_ms)
            if line is not None:
                yield line


def closing_lines(seed: int, *, after_ms: int) -> list[Line]:
    """One more request, so much later that all traces before it, complete or not, are emitted."""
    random = Random(f"closing {seed}")
    plan = Plan(malformed_share=0, late_share=0, early_share=0, unsent_share=0)
    start_ms = after_ms + (TRACE_TIMEOUT_S + 1) * 1000
    made = [
        _line(random, plan, span, f"{seed:x}-closing-{number}", start_ms)
        for number, span in enumerate(sorted(_request(random, plan, 0.0)))
    ]
    return [line for line in made if line is not None]


class _Span(NamedTuple):
    sent_ms: float
    ended_ms: float
    trace_id: str
    span_id: str
    parent_span_id: str | None
    service: str
    endpoint: str
    status: int
    latency_ms: float
    calls: int


class _Answer(NamedTuple):
    ended_ms: float
    status: int


def _request(random: Random, plan: Plan, begin_ms: float) -> list[_Span]:
    """All spans of one request from outside."""
    spans: list[_Span] = []
    (entry,) = random.choices(_ENTRY_NAMES, _ENTRY_WEIGHTS)
    trace_id = f"{random.getrandbits(128):032x}"

    def answer(service: str, endpoint: str, parent_span_id: str | None, at_ms: float) -> _Answer:
        does: Endpoint = ENDPOINTS[service, endpoint]
        span_id = f"{random.getrandbits(64):016x}"
        failing = plan.is_failing(service, at_ms)
        own_ms = does.own_latency_ms * math.exp(random.gauss(0.0, 0.4))
        if failing:
            own_ms *= plan.failing_slowness
        now_ms = at_ms + own_ms
        status = 200 if endpoint.startswith("GET") else 201
        calls = 0
        for call in does.calls:
            if random.random() < call.probability:
                calls += 1
                callee = answer(call.service, call.endpoint, span_id, now_ms)
                now_ms = callee.ended_ms
                if callee.status >= ERROR_STATUS and random.random() < 0.5:
                    status = 502  # the others have something to fall back on
        if random.random() < (plan.failing_error_share if failing else plan.error_share):
            status = 503 if failing else 500
        sent_ms = now_ms + random.random() * _SHIPPING_MS
        spans.append(
            _Span(
                sent_ms,
                now_ms,
                trace_id,
                span_id,
                parent_span_id,
                service,
                endpoint,
                status,
                round(now_ms - at_ms, 3),
                calls,
            )
        )
        return _Answer(now_ms, status)

    answer(ENTRY_SERVICE, entry, None, begin_ms)
    return spans


def _line(random: Random, plan: Plan, span: _Span, event_id: str, start_ms: int) -> Line | None:
    sent_ms = start_ms + int(span.sent_ms)
    event_ms = start_ms + int(span.ended_ms)
    kind = VALID
    chance = random.random()
    if (chance := chance - plan.unsent_share) < 0:
        return None
    if (chance := chance - plan.malformed_share) < 0:
        kind = MALFORMED
    elif (chance := chance - plan.late_share) < 0:
        kind = LATE
        event_ms -= (ALLOWED_LATENESS_S + 5) * 1000 + random.randrange(60_000)
    elif (chance := chance - plan.early_share) < 0:
        kind = EARLY
        event_ms += 3_600_000  # a clock in the wrong time zone
    event = {
        "event_id": event_id,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        "service": span.service,
        "endpoint": span.endpoint,
        "status": span.status,
        "latency_ms": span.latency_ms,
        "calls": span.calls,
        "event_time": _iso(event_ms),
        "message": f"{span.endpoint} answered {span.status}",
    }
    value = json.dumps(event) if kind != MALFORMED else _spoiled(random, event)
    return Line(sent_ms, span.trace_id, value.encode(), kind, event)


def _spoiled(random: Random, event: dict[str, Any]) -> str:
    match random.randrange(4):
        case 0:
            text = json.dumps(event)
            return text[: random.randrange(1, len(text) - 1)]
        case 1:
            left_out = random.choice(("service", "trace_id", "status", "event_time"))
            return json.dumps({name: value for name, value in event.items() if name != left_out})
        case 2:
            return json.dumps({**event, random.choice(("latency_ms", "status", "event_time")): "unknown"})
        case _:
            return f"Traceback (most recent call last): {event['message']}"


def _iso(time_ms: int) -> str:
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


# Sending.


@dataclass
class Acknowledged:
    """What the broker has, exactly: lines are counted when it said so."""

    lines: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    behind_ms: int = 0  # of the last lines: how much later than planned they were acknowledged

    def to_json(self) -> str:
        return json.dumps({"acknowledged": self.lines, **self.kinds, "behind_ms": self.behind_ms})


async def send(
    client: Client,
    made: Iterator[Line],
    *,
    topic: str = TOPIC,
    duration_s: float | None = None,
    paced: bool = True,
    acknowledged: Acknowledged | None = None,
    stopping: asyncio.Event | None = None,
    closing_seed: int | None = None,
) -> Acknowledged:
    """Send lines when they are due, or at once if not `paced`; keyed by trace, so that a trace stays in a partition.

    Ends with the lines, with the first one after `duration_s`, or when `stopping` is set: then, too, all that was sent
    is acknowledged and counted. With a `closing_seed` the `closing_lines` follow, at once. Who wants to look while it
    runs gives the `acknowledged` to count in.
    """
    sending = _Sending(client, topic, Acknowledged() if acknowledged is None else acknowledged)
    first_ms: int | None = None
    last_ms = client.loop.now_ms()
    for line in made:
        first_ms = line.sent_ms if first_ms is None else first_ms
        if stopping is not None and stopping.is_set():
            break
        if duration_s is not None and line.sent_ms - first_ms >= duration_s * 1000:
            break
        if paced:
            await sending.wait_for(line.sent_ms)
        await sending.add(line)
        last_ms = line.sent_ms
    if closing_seed is not None:
        for line in closing_lines(closing_seed, after_ms=last_ms):
            await sending.add(line)
    await sending.flush()
    return sending.acknowledged


class _Sending:
    """Lines that are due and not sent yet, at most a chunk of them."""

    def __init__(self, client: Client, topic: str, acknowledged: Acknowledged) -> None:
        self.acknowledged = acknowledged
        self._client = client
        self._producer = Producer(client)
        self._topic = topic
        self._chunk: list[Line] = []

    async def wait_for(self, time_ms: int) -> None:
        """Until then, and a little longer, so that lines go out in company; what is due already goes first."""
        if time_ms > self._client.loop.now_ms():
            await self.flush()
            early_ms = time_ms - self._client.loop.now_ms()
            if early_ms > 0:
                await self._client.loop.sleep((early_ms + _PACE_MS) / 1000)

    async def add(self, line: Line) -> None:
        self._chunk.append(line)
        if len(self._chunk) >= _CHUNK_LINES:
            await self.flush()

    async def flush(self) -> None:
        chunk, self._chunk = self._chunk, []
        if not chunk:
            return
        # The time is when the logger sent it: a broker that keeps a producer waiting makes no event late.
        records = [NewRecord(line.trace_id.encode(), line.value, timestamp=line.sent_ms) for line in chunk]
        await self._producer.send(self._topic, records)
        self.acknowledged.lines += len(chunk)
        self.acknowledged.kinds.update(line.kind for line in chunk)
        self.acknowledged.behind_ms = max(0, self._client.loop.now_ms() - chunk[-1].sent_ms)


# As a program.


async def _main(arguments: argparse.Namespace) -> Acknowledged:
    stopping = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    loop = RealLoop()
    settings = ClientSettings(client_id="app-logs-generator")
    async with Client(loop, arguments.bootstrap_servers, entropy=RealEntropy(), settings=settings) as client:
        # One that is there already stays as it is.
        await create_topics(client, [NewTopic(arguments.topic, partitions=arguments.partitions)])
        counted = Acknowledged()
        telling = loop.create_task(_tell(loop, counted))
        # Two runs into one topic must not have the same traces.
        seed = loop.now_ms() if arguments.seed is None else arguments.seed
        made = lines(
            seed,
            start_ms=loop.now_ms(),
            plan=Plan(events_per_second=arguments.rate, burst_factor=arguments.burst_factor),
        )
        try:
            await send(
                client,
                made,
                topic=arguments.topic,
                duration_s=arguments.duration,
                acknowledged=counted,
                stopping=stopping,
                closing_seed=seed,
            )
        finally:
            telling.cancel()
        return counted


async def _tell(loop: RealLoop, counted: Acknowledged) -> None:
    """A line of JSON every second, for the display."""
    while True:
        await loop.sleep(1)
        print(counted.to_json(), flush=True)


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="app_logs.generator", description="Sends application logs to a topic."
    )
    servers = os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS") or "localhost:9092"  # as for every command
    parser.add_argument("--bootstrap-servers", default=servers, help="brokers, as host:port (%(default)s)")
    parser.add_argument("--topic", default=TOPIC, help="made if it is not there (%(default)s)")
    parser.add_argument("--partitions", type=int, default=4, help="of a topic that is made (%(default)s)")
    parser.add_argument("--rate", type=float, default=200.0, help="events per second (%(default)s)")
    parser.add_argument(
        "--burst-factor", type=float, default=10.0, help="of the rate, in bursts (%(default)s)"
    )
    parser.add_argument("--duration", type=float, help="seconds; else until it is interrupted")
    parser.add_argument("--seed", type=int, help="the same seed, the same lines; by default the time")
    counted = run(lambda: _main(parser.parse_args(given)))
    print(counted.to_json(), flush=True)


if __name__ == "__main__":
    main()
