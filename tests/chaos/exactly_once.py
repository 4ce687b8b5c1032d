"""The exactly-once run: records copied in transactions by two workers of each client, everything dying meanwhile.

One feeder, one source topic, a sink for each client. Broker and workers are killed with SIGKILL and started again, and
a proxy loses some of the answers. At the end, readers of committed records must find each record of the source exactly
once in each sink, in the order of its partition.
"""

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from peers.penstock import PenstockProcess
from peers.process import WatchedProcess
from tests.chaos.copiers.orders import Orders
from tests.chaos.lossy_proxy import LossyProxy
from tests.chaos.reading import committed_values, create_topics

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ("confluent", "aiokafka", "penstock")
SOURCE = "source"
PARTITIONS = 4
SETTLING_S = 90.0
FEEDS_PER_SECOND = 20
RECORDS_PER_FEED = 10
ANSWERS_LOST = 0.003  # of all
SECONDS_BETWEEN_KILLS = (0.5, 2.5)

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
}

Say = Callable[[str], None]


@dataclass
class Report:
    """What happened, and what is wrong with it."""

    records: int = 0
    broker_kills: int = 0
    worker_kills: int = 0
    answers_lost: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def both_were_killed(self) -> bool:
        return bool(self.broker_kills and self.worker_kills)

    def __str__(self) -> str:
        happened = (
            f"{self.records} records, {self.broker_kills} kills of the broker, {self.worker_kills} of workers, "
            f"{self.answers_lost} answers lost"
        )
        return "\n".join([happened, *self.faults])


class Worker:
    """One copier, started again whenever it has ended."""

    def __init__(self, client: str, orders: Orders) -> None:
        self.name = orders.name
        self._command = [sys.executable, "-m", f"tests.chaos.copiers.{client}_copier", orders.as_argument()]
        self._process: WatchedProcess | None = None
        self._said = ""

    def tend(self) -> None:
        if self._process is not None and self._process.exit_code is None:
            return
        self.bury()
        self._process = WatchedProcess(self._command, directory=ROOT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def bury(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._said = (self._said + self._process.output)[-4000:]

    @property
    def said(self) -> str:
        return self._said + ("" if self._process is None else self._process.output)


class Run:
    def __init__(self, *, seed: int, say: Say) -> None:
        self._random = random.Random(seed)
        self._say = say
        self._report = Report()
        self._next_value = 0

    def run(self, seconds: float) -> Report:
        losses = random.Random(self._random.random())
        with LossyProxy(lambda key: losses.random() < ANSWERS_LOST) as proxy:
            settings = {**SETTINGS, **proxy.advertised}
            with PenstockProcess(settings=settings, listen=proxy.target) as broker:
                create_topics(proxy.address, SOURCE, *map(sink_of, CLIENTS), partitions=PARTITIONS)
                with crew(proxy.address) as workers:
                    self._disturb(seconds, broker, proxy, workers)
                    self._settle(proxy, workers)
        return self._report

    def _disturb(
        self, seconds: float, broker: PenstockProcess, proxy: LossyProxy, workers: list[Worker]
    ) -> None:
        feeder = Producer(
            {
                "bootstrap.servers": proxy.address,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        started_s = time.monotonic()
        next_kill_s = started_s
        while (now_s := time.monotonic()) < started_s + seconds or not self._report.both_were_killed:
            for worker in workers:
                worker.tend()
            self._feed(feeder)
            if now_s >= next_kill_s:
                self._kill_broker_or_worker(broker, workers)
                next_kill_s = time.monotonic() + self._random.uniform(*SECONDS_BETWEEN_KILLS)
            feeder.flush(1 / FEEDS_PER_SECOND)
            time.sleep(1 / FEEDS_PER_SECOND)  # the pace of the feed
        assert feeder.flush(SETTLING_S) == 0, "the feeder is not rid of its records"
        self._report.records = self._next_value

    def _feed(self, feeder: Producer) -> None:
        for _ in range(RECORDS_PER_FEED):
            value = self._next_value
            self._next_value += 1
            feeder.produce(SOURCE, b"%d" % value, partition=value % PARTITIONS)

    def _kill_broker_or_worker(self, broker: PenstockProcess, workers: list[Worker]) -> None:
        if self._random.random() < 0.3:
            self._say("kills the broker")
            self._report.broker_kills += 1
            broker.kill()
            broker.start()
        else:
            victim = self._random.choice(workers)
            self._say(f"kills {victim.name}")
            self._report.worker_kills += 1
            victim.kill()

    def _settle(self, proxy: LossyProxy, workers: list[Worker]) -> None:
        """No process is killed any more: the workers must copy all records."""
        proxy.lose_nothing_more()
        self._report.answers_lost = proxy.lost.total()
        deadline_s = time.monotonic() + SETTLING_S
        behind = list(CLIENTS)
        while behind and time.monotonic() < deadline_s:
            for worker in workers:
                worker.tend()
            behind = [client for client in behind if self._is_behind(proxy.address, client)]
        for worker in workers:
            worker.stop()
        source = committed_values(proxy.address, SOURCE, partitions=PARTITIONS)
        self._check("the source", source)
        for client in CLIENTS:
            self._check(client, committed_values(proxy.address, sink_of(client), partitions=PARTITIONS))
        for client in behind:
            said = "".join(worker.said for worker in workers if worker.name.startswith(client))
            self._report.faults.append(f"{client} did not get to the end; it said:\n{said}")

    def _is_behind(self, bootstrap: str, client: str) -> bool:
        values = committed_values(bootstrap, sink_of(client), partitions=PARTITIONS)
        return sum(map(len, values.values())) < self._next_value

    def _check(self, whose: str, values: dict[int, list[bytes]]) -> None:
        for partition in range(PARTITIONS):
            expected = [b"%d" % value for value in range(partition, self._next_value, PARTITIONS)]
            self._report.faults += [
                f"{whose}, partition {partition}: {fault}"
                for fault in faults_of(values.get(partition, []), expected)
            ]


def faults_of(got: list[bytes], expected: list[bytes]) -> Iterator[str]:
    """What is wrong with a copy, in words."""
    if got == expected:
        return
    missing = sorted(set(expected) - set(got), key=int)
    repeated = sorted({value for value in got if got.count(value) > 1}, key=int)
    if missing:
        yield f"{len(missing)} lost, the first is {missing[0]!r}"
    if repeated:
        yield f"{len(repeated)} more than once, the first is {repeated[0]!r}"
    if not missing and not repeated:
        yield "not in order"


def sink_of(client: str) -> str:
    return f"sink-{client}"


@contextlib.contextmanager
def crew(bootstrap: str) -> Iterator[list[Worker]]:
    workers = [
        Worker(
            client,
            Orders(
                bootstrap=bootstrap,
                source=SOURCE,
                sink=sink_of(client),
                group=f"group-{client}",
                name=f"{client}-{number}",
                partitions=tuple(range(number, PARTITIONS, 2)),
            ),
        )
        for client in CLIENTS
        for number in range(2)
    ]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.bury()


def run(seconds: float, *, seed: int, say: Say = lambda words: None) -> Report:
    return Run(seed=seed, say=say).run(seconds)
