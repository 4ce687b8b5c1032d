"""A minimal shard for tests of the coordinator runtime: named counters."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

from penstock.base.errors import ErrorCode
from penstock.broker.broker import Broker
from penstock.core.coordinator_shard import BatchProducer, Completion, Decision, Pending
from penstock.records.internal.record import (
    InternalRecord,
    RecordFormat,
    RecordKey,
    RecordType,
    RecordValue,
)
from penstock.schema import words
from penstock.services.coordinators.coordinator import Coordinator
from penstock.services.coordinators.internal_topics import InternalTopic, TopicCreator

TOPIC = "__counters"


class CounterKey(RecordKey):
    TYPE = 1
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = None

    name: str = words.string("0")


class CounterValue(RecordValue):
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0

    count: int = words.int64("0+")


FORMAT = RecordFormat(RecordType(CounterKey, CounterValue, 0))


def counter(name: str, count: int | None) -> InternalRecord:
    return InternalRecord(CounterKey(name=name), None if count is None else CounterValue(count=count))


class CountingShard:
    """Counters, some of which end at a time."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.counts: dict[str, int] = {}
        self.offsets: list[int] = []
        self.uncommitted: dict[BatchProducer, dict[str, int]] = {}
        self.ends_ms: dict[str, int] = {}  # not durable
        self.waiting: list[Pending[int]] = []
        self.loaded_at_ms: int | None = None
        self.is_broken = False

    # As the runtime sees it.

    def replay(self, record: InternalRecord, *, offset: int, producer: BatchProducer | None = None) -> None:
        assert not self.is_broken, "broken on purpose"
        assert isinstance(record.key, CounterKey)
        self.offsets.append(offset)
        counts = self.counts if producer is None else self.uncommitted.setdefault(producer, {})
        if record.value is None:
            del counts[record.key.name]
        else:
            assert isinstance(record.value, CounterValue)
            counts[record.key.name] = record.value.count

    def replay_marker(self, producer: BatchProducer, *, committed: bool, offset: int) -> None:
        self.offsets.append(offset)
        ended = self.uncommitted.pop(producer, {})
        if committed:
            self.counts |= ended

    def loaded(self, now_ms: int) -> None:
        self.loaded_at_ms = now_ms

    def deadline(self) -> int | None:
        return min(self.ends_ms.values(), default=None)

    def expire(self, now_ms: int) -> Iterator[Decision[None]]:
        for name in [name for name, end_ms in self.ends_ms.items() if end_ms <= now_ms]:
            del self.ends_ms[name]
            yield Decision(None, (counter(name, None),))

    # Requests.

    def add(self, name: str, _now_ms: int, producer: BatchProducer | None = None) -> Decision[int]:
        count = self.counts.get(name, 0) + 1
        return Decision(count, (counter(name, count),), producer=producer)

    def add_for(self, name: str, now_ms: int, lifetime_ms: int) -> Decision[int]:
        self.ends_ms[name] = now_ms + lifetime_ms
        return self.add(name, now_ms)

    def get(self, name: str) -> Decision[int]:
        count = self.counts.get(name)
        return Decision.refused(ErrorCode.GROUP_ID_NOT_FOUND) if count is None else Decision(count)

    def wait(self) -> Decision[int]:
        pending = Pending[int]()
        self.waiting.append(pending)
        return Decision(pending)

    def add_and_wake(self, name: str) -> Decision[int]:
        """Wait too, and be answered by this decision, as every waiting request."""
        self.wait()
        count = self.counts.get(name, 0) + 1
        completes = tuple(Completion(pending, count) for pending in self.waiting)
        own = self.waiting[-1]
        self.waiting = []
        return Decision(own, (counter(name, count),), completes)

    def add_with_effect(self, name: str) -> Decision[int]:
        return Decision(1, (counter(name, 1),), effects=(f"{name} is safe",))

    def add_later(self, name: str, gate: Callable[[], bool]) -> Decision[str]:
        def work() -> Generator[None, None, Decision[None]]:
            while not gate():
                yield
            count = self.counts.get(name, 0) + 1
            return Decision(None, (counter(name, count),))

        return Decision("later", work=work())

    def list(self, gate: Callable[[], bool]) -> Generator[None, None, Decision[list[str]]]:
        while not gate():
            yield
        return Decision(sorted(self.counts))

    def add_large(self, name: str, count: int) -> Decision[int]:
        return Decision(count, tuple(counter(name * 1000, number) for number in range(count)))


def new_coordinator(
    broker: Broker, creator: TopicCreator | None = None, **configs: str
) -> Coordinator[CountingShard]:
    """Another kind of coordinator on a running broker."""
    services = broker.services
    coordinator: Coordinator[CountingShard] = Coordinator(
        services.node.world,
        services.cluster.image,
        creator or services.cluster.controller,
        services.logs.replicas,
        services.node.configs,
        topic=InternalTopic(
            TOPIC,
            3,
            1,
            {"cleanup.policy": "compact"} | {k.replace("_", "."): v for k, v in configs.items()},
        ),
        record_format=FORMAT,
        new_shard=CountingShard,
    )
    return coordinator


def partition_of(broker: Broker, index: int) -> Any:
    return broker.services.logs.replicas.find_replica(TOPIC, index)


def bump_leader_epoch(partition: Any) -> None:
    """Have this broker lead in a new leader epoch, without notice to its coordinator."""
    state = partition.state
    partition.change(
        state._replace(leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
    )
