"""The two brokers: Penstock and its peer, Apache Kafka or an earlier Penstock.

They are started the way their users start them, warmed up, and watched from outside.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.load.frames import batch_of, good_answer, produce_frames
from bench.load.raw import run_load
from bench.load.throughput import Case, consume, produce
from bench.scale import Scale
from bench.usage import Usage
from peers.brokers import Broker
from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess
from penstock.client.blocking import BlockingClient
from penstock.client.topics import Created, NewTopic, create_topics, delete_topics

PENSTOCK = "penstock"
KAFKA = "kafka"

_SETTINGS = {
    # What is deleted after a turn must not lie around for the next ones.
    "log.segment.delete.delay.ms": 1000,
    # Else a new group's first members wait three seconds for more of them, on either broker.
    "group.initial.rebalance.delay.ms": 0,
}
# Those of Kafka's own start script, with the heap free to start smaller.
JAVA_OPTIONS = (
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
_PARTITIONS_PER_TOPIC_MAX = 1000  # KRaft refuses changes of more than ten thousand records at once


def new_penstock() -> PenstockProcess:
    return PenstockProcess(settings=_SETTINGS)


def new_kafka() -> ApacheKafka:
    return ApacheKafka(settings=_SETTINGS, java_options=JAVA_OPTIONS)


class Contestant:
    """A broker of one kind: `fresh` makes another one, `broker` is the one that is warm."""

    def __init__(self, name: str, fresh: Callable[[], Broker]) -> None:
        self.name = name
        self.fresh = fresh
        self._broker: Broker | None = None
        self._topics = 0

    def __enter__(self) -> Self:
        self._broker = self.fresh()
        self._broker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.__exit__(kind, error, trace)

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "not started"
        return self._broker

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def usage(self) -> Usage:
        return Usage(self.broker.pid)

    @contextlib.contextmanager
    def topic(self, *, partitions: int, configs: Mapping[str, str] | None = None) -> Iterator[str]:
        """A topic for one turn; it is deleted afterwards."""
        with self.topics(partitions=partitions, configs=configs) as names:
            (name,) = names
            yield name

    @contextlib.contextmanager
    def topics(
        self, *, partitions: int, configs: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, int]]:
        """Topics that have so many partitions together; names, all of one length, with their partitions."""
        sizes = {}
        while partitions > 0:
            self._topics += 1
            sizes[f"bench-{self._topics:05}"] = min(partitions, _PARTITIONS_PER_TOPIC_MAX)
            partitions -= _PARTITIONS_PER_TOPIC_MAX
        self._create(sizes, configs or {})
        try:
            yield sizes
        finally:
            self._delete(sizes)

    def create_lasting(self, *, partitions: int) -> str:
        """A topic that stays as long as its broker."""
        self._topics += 1
        name = f"bench-{self._topics:05}"
        self._create({name: partitions}, {})
        return name

    def _create(self, sizes: Mapping[str, int], configs: Mapping[str, str]) -> None:
        with BlockingClient(self.bootstrap) as blocking:
            for name, partitions in sizes.items():
                topic = NewTopic(name, partitions, replication_factor=1, configs=configs)
                created = blocking.run(create_topics(blocking.client, [topic]))[name]
                assert isinstance(created, Created), f"{self.name} does not create {name}: {created}"

    def _delete(self, sizes: Mapping[str, int]) -> None:
        with BlockingClient(self.bootstrap) as blocking:
            for name in sizes:
                refusal = blocking.run(delete_topics(blocking.client, [name]))[name]
                assert refusal is None, f"{self.name} does not delete {name}: {refusal}"


def beside_kafka() -> list[Contestant]:
    return [Contestant(PENSTOCK, new_penstock), Contestant(KAFKA, new_kafka)]


def beside_earlier(name: str, source: Path) -> list[Contestant]:
    """Penstock and an earlier version of it, whose package is in the folder `source`."""

    def new_earlier() -> PenstockProcess:
        process = new_penstock()
        process.source = source
        return process

    return [Contestant(PENSTOCK, new_penstock), Contestant(name, new_earlier)]


def warm_up(contestant: Contestant, scale: Scale) -> None:
    """A fresh virtual machine interprets and then compiles: both get the load that will be measured."""
    with contestant.topic(partitions=6) as name:
        frames = produce_frames(name, range(6), batch_of(records=1, value_bytes=100))
        run_load(
            contestant.bootstrap,
            frames,
            good_answer(name),
            connections=8,
            in_flight=8,
            seconds=scale.warm_up_seconds,
        )
    for value_bytes, count in ((100, scale.small_message_count), (1024, scale.large_message_count)):
        case = Case(value_bytes, "lz4", 6, count // 2)
        with contestant.topic(partitions=6) as name:
            produce(contestant.bootstrap, name, case)
            consume(contestant.bootstrap, name, case)
