"""A seed's plan: the topics, the clients, and the list of operations and faults that a run goes through.

A plan is made before anything runs, from the seed alone, and is plain data: it goes to a file and back, and a
shorter one is made by leaving entries out (`shrink`). What differs between two runs of one plan is nothing.

Every seed tries some kinds of faults and leaves others alone, so that each kind is met alone and in company.
Faults are a bounded share of the entries: clients have time to do something between them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from penstock.sim import entries as kinds
from penstock.sim.coordination_actors import MemberPlan, TransactorPlan
from penstock.sim.entries import Entry, Fault, Operation, from_json, to_json
from penstock.sim.phases import Phase
from penstock.sim.topic_plans import FOREVER, TopicPlan, compaction, draw_topic

OPERATION_COUNT = 160
OPERATIONS_PER_FAULT = 12  # at least
_DURATION_MS = (8_000, 40_000)
_BUSY_MOMENTS = 12
_BUSY_FOR_MS = 20
_FOREIGN_ONE_IN = 4
_ADMIN = "admin"
OPERATOR = "operator"  # of a cluster
_PHASES = [phase for phase in Phase if phase not in (Phase.IDLE, Phase.DOWN)]


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """One producer."""

    name: str
    idempotent: bool
    acks: int
    pipelines: bool = False  # has several batches in flight, as librdkafka does


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run needs to know."""

    seed: int
    topics: tuple[TopicPlan, ...]
    writers: tuple[WriterPlan, ...]
    readers: tuple[str, ...]
    broker: tuple[tuple[str, str], ...]  # settings
    finish: str  # how the broker is restarted before all is read: "restart", "crash-process", "crash-machine"
    entries: tuple[Entry, ...]
    members: tuple[MemberPlan, ...] = ()
    transactors: tuple[TransactorPlan, ...] = ()
    nodes: int = 1

    @property
    def operations(self) -> list[Operation]:
        return [entry for entry in self.entries if isinstance(entry, Operation)]

    @property
    def faults(self) -> list[Fault]:
        return [entry for entry in self.entries if isinstance(entry, Fault)]

    @property
    def clients(self) -> list[str]:
        """The names of all that act in it."""
        writers = [writer.name for writer in self.writers]
        members = [member.name for member in self.members]
        transactors = [transactor.name for transactor in self.transactors]
        operators = [OPERATOR] if self.is_of_cluster else []
        return [*writers, *members, *transactors, *self.readers, _ADMIN, *operators]

    @property
    def is_of_cluster(self) -> bool:
        return self.nodes > 1

    @property
    def is_coordinated(self) -> bool:
        """Whether an actor of the plan needs a coordinator."""
        return bool(self.members or self.transactors)

    def with_entries(self, entries: Sequence[Entry]) -> "Plan":
        return replace(self, entries=tuple(entries))

    def to_json(self) -> str:
        data = {**asdict(replace(self, entries=())), "entries": [to_json(entry) for entry in self.entries]}
        return json.dumps(data, indent=1)

    @staticmethod
    def from_json(text: str) -> "Plan":
        """The reverse; ValueError for what is no plan."""
        try:
            data: dict[str, Any] = json.loads(text)
            return Plan(
                seed=int(data["seed"]),
                topics=tuple(TopicPlan(**topic) for topic in data["topics"]),
                writers=tuple(WriterPlan(**writer) for writer in data["writers"]),
                readers=tuple(data["readers"]),
                broker=tuple((str(name), str(value)) for name, value in data["broker"]),
                finish=str(data["finish"]),
                entries=tuple(from_json(entry) for entry in data["entries"]),
                members=tuple(MemberPlan.of(member) for member in data.get("members", ())),
                transactors=tuple(TransactorPlan(**transactor) for transactor in data.get("transactors", ())),
                nodes=int(data.get("nodes", 1)),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a plan: {error!r}") from error


def make_plan(seed: int, *, operation_count: int = OPERATION_COUNT) -> Plan:
    """What a seed stands for."""
    plan = Drawing(seed).plan(operation_count)
    return with_foreign_directories(plan, faults_max=operation_count // OPERATIONS_PER_FAULT)


def with_foreign_directories(plan: Plan, *, faults_max: int) -> Plan:
    """The same plan, or, one in four, with others' directories in the brokers' data directories and starts without
    metadata. Drawn apart, so that all else about a seed is as it would be without.
    """
    chance = Random(f"others/{plan.seed}")
    if chance.randrange(_FOREIGN_ONE_IN) or len(plan.faults) >= faults_max:
        return plan
    end_ms = plan.entries[-1].at_ms
    faults: list[Fault] = []
    for _ in range(chance.randint(1, faults_max - len(plan.faults))):
        topic, node = chance.choice(plan.topics), chance.randint(1, plan.nodes)
        # At the beginning the names of the topics' own partitions are free.
        at_ms = chance.choice((0, 0, chance.randrange(end_ms)))
        name = chance.choice((f"{topic.name}-{chance.randrange(topic.partitions + 1)}", "photos-2024"))
        is_partition = chance.random() < 0.5
        if chance.random() < 0.7:
            faults.append(kinds.CopyForeignDirectory(at_ms, name, is_partition=is_partition, node=node))
        else:
            faults.append(
                kinds.StartWithoutMetadata(chance.randrange(end_ms), chance.choice((0, 500)), node=node)
            )
    return plan.with_entries(sorted([*plan.entries, *faults], key=lambda entry: entry.at_ms))


class Drawing:
    """One plan in the making: all chance comes from here."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = Random(f"plan/{seed}")
        self.duration_ms = chance.randint(*_DURATION_MS)
        self.busy_ms = [chance.randrange(self.duration_ms) for _ in range(_BUSY_MOMENTS)]
        self.topics = [draw_topic(chance, f"topic-{number}") for number in range(chance.randint(1, 3))]
        self.writers = [self._writer(number) for number in range(chance.randint(1, 3))]
        self.readers = [f"reader-{number}" for number in range(chance.randint(1, 2))]
        self.keys = [f"key-{number}" for number in range(chance.choice((2, 8, 40)))]

    def plan(self, operation_count: int) -> Plan:
        operations = self._beginning()
        draws = self._operations()
        weights = [weight for weight, _ in draws]
        for _ in range(operation_count - len(operations)):
            (draw,) = self.chance.choices([draw for _, draw in draws], weights)
            operations.append(draw())
        faults = self._faults(operation_count // OPERATIONS_PER_FAULT)
        entries: list[Entry] = [*operations, *faults]
        return Plan(
            self.seed,
            tuple(self.topics),
            tuple(self.writers),
            tuple(self.readers),
            self._broker_settings(),
            self.chance.choice(("restart", "crash-process", "crash-machine")),
            tuple(sorted(entries, key=lambda entry: entry.at_ms)),  # stable: a moment's entries stay in order
        )

    def _writer(self, number: int) -> WriterPlan:
        acks = self.chance.choice((-1, -1, -1, 1, 0))
        return WriterPlan(f"writer-{number}", idempotent=acks == -1 and self.chance.random() < 0.7, acks=acks)

    def _broker_settings(self) -> tuple[tuple[str, str], ...]:
        chance = self.chance
        return (
            ("log.retention.check.interval.ms", str(chance.choice((300, 1_000, 5_000)))),
            ("log.cleaner.backoff.ms", str(chance.choice((200, 1_000)))),
            ("log.flush.offset.checkpoint.interval.ms", str(chance.choice((200, 2_000, 60_000)))),
            ("penstock.sync.whole.file.system.from", str(chance.choice((0, 1, 8)))),
            ("penstock.drain.timeout.ms", "1000"),
        )

    def _moment_ms(self) -> int:
        """Mostly several at once: faults one by one would not overlap with operations."""
        if self.chance.random() < 0.3:
            return self.chance.randrange(self.duration_ms)
        return self.chance.choice(self.busy_ms) + self.chance.randrange(_BUSY_FOR_MS)

    # ---- operations

    def _beginning(self) -> list[Operation]:
        return [kinds.CreateTopic(0, _ADMIN, topic.name) for topic in self.topics]

    def _operations(self) -> list[tuple[int, Callable[[], Operation]]]:
        """What clients may do in this plan, and how often beside each other."""
        admin_weight = self.chance.choice((0, 1, 3))
        return [
            (self.chance.choice((20, 60)), self._send),
            (self.chance.choice((20, 40)), self._read),
            (2, self._seek),
            (admin_weight, self._recreate),
            (admin_weight, self._alter),
            (admin_weight, self._delete_records),
        ]

    def _topic(self) -> TopicPlan:
        return self.chance.choice(self.topics)

    def _send(self) -> Operation:
        chance, topic = self.chance, self._topic()
        count = chance.choice((1, 1, 2, 5, 10))
        keyed = topic.is_keyed or chance.random() < 0.5
        keys = tuple(chance.choice(self.keys) if keyed else "" for _ in range(count))
        tombstones = tuple(index for index in range(count) if keyed and chance.random() < 0.2)
        return kinds.SendBatch(
            self._moment_ms(),
            chance.choice(self.writers).name,
            topic.name,
            chance.randrange(topic.partitions),
            keys,
            tombstones,
            value_bytes=chance.choice((1, 20, 200, 1_000)),
            codec=chance.choice(("NONE", "NONE", "LZ4")),
        )

    def _read(self) -> Operation:
        topic = self._topic()
        return kinds.ReadOn(
            self._moment_ms(),
            self.chance.choice(self.readers),
            topic.name,
            self.chance.randrange(topic.partitions),
            bytes_max=self.chance.choice((1, 500, 1 << 20)),
        )

    def _seek(self) -> Operation:
        topic = self._topic()
        return kinds.Seek(
            self._moment_ms(),
            self.chance.choice(self.readers),
            topic.name,
            self.chance.randrange(topic.partitions),
            to_end=self.chance.random() < 0.3,
        )

    def _recreate(self) -> Operation:
        kind = self.chance.choice(
            (kinds.RecreateTopic, kinds.RecreateTopic, kinds.DeleteTopic, kinds.CreateTopic)
        )
        return kind(self._moment_ms(), _ADMIN, self._topic().name)

    def _alter(self) -> Operation:
        name, value = self.chance.choice(
            (
                ("cleanup.policy", "delete"),
                ("cleanup.policy", compaction(self.chance)["cleanup.policy"]),
                ("internal.segment.bytes", "400"),
                ("retention.bytes", self.chance.choice((FOREVER, "1500"))),
                ("retention.ms", self.chance.choice((FOREVER, "4000"))),
                ("flush.messages", self.chance.choice(("1", "5"))),
            )
        )
        return kinds.AlterTopic(self._moment_ms(), _ADMIN, self._topic().name, name, value)

    def _delete_records(self) -> Operation:
        topic = self._topic()
        return kinds.DeleteRecords(
            self._moment_ms(),
            _ADMIN,
            topic.name,
            self.chance.randrange(topic.partitions),
            self.chance.choice((10, 50, 100)),
        )

    # ---- faults

    def _faults(self, count_max: int) -> list[Fault]:
        draws = self._fault_draws()
        chosen = self.chance.sample(draws, self.chance.randint(1, len(draws)))
        crashes = [self._crash_process, self._crash_machine, self._restart]
        crashes = self.chance.sample(crashes, self.chance.randint(1, len(crashes)))
        count = self.chance.randint(1, max(1, count_max))
        kinds_of_each = [self.chance.choice((chosen, crashes)) for _ in range(count)]
        return [replace(self.chance.choice(each)(), when=self._when()) for each in kinds_of_each]

    def _when(self) -> str | None:
        """Most strike while the broker does something; left to the clock, they would find it idle."""
        return self.chance.choice(_PHASES).value if self.chance.random() < 0.7 else None

    def _fault_draws(self) -> list[Callable[[], Fault]]:
        return [
            self._crash_process,
            self._crash_machine,
            lambda: kinds.CutNetwork(self._moment_ms(), self._client(), self._while_ms()),
            lambda: kinds.DelayNetwork(
                self._moment_ms(), self._client(), self.chance.choice((20, 500)), self._while_ms()
            ),
            lambda: kinds.SlowNetwork(
                self._moment_ms(), self._client(), self.chance.choice((200, 5_000)), self._while_ms()
            ),
            lambda: kinds.ResetConnections(self._moment_ms(), self._client()),
            lambda: kinds.HalfOpenConnections(self._moment_ms(), self._client()),
            lambda: kinds.FillDisk(self._moment_ms(), self._while_ms()),
            lambda: kinds.FailAppend(self._moment_ms()),
            lambda: kinds.FailSync(self._moment_ms()),
            lambda: kinds.SlowSyncs(self._moment_ms(), self.chance.choice((5, 300)), self._while_ms()),
            lambda: kinds.ColdCache(self._moment_ms(), self._while_ms()),
            lambda: kinds.FlipBit(self._moment_ms(), self.chance.choice((".log", ".index", ".timeindex"))),
            lambda: kinds.JumpClock(self._moment_ms(), self.chance.choice((-60_000, -500, 500, 5_000))),
            lambda: kinds.SkewClock(self._moment_ms(), self.chance.choice((90, 101, 130))),
        ]

    def _client(self) -> str:
        return self.chance.choice([*(writer.name for writer in self.writers), *self.readers, _ADMIN])

    def _while_ms(self) -> int:
        return self.chance.choice((50, 500, 4_000))

    def _crash_process(self) -> Fault:
        return kinds.CrashProcess(self._moment_ms(), self._down_ms(), self._after_changes())

    def _crash_machine(self) -> Fault:
        return kinds.CrashMachine(self._moment_ms(), self._down_ms(), self._after_changes())

    def _restart(self) -> Fault:
        return kinds.Restart(self._moment_ms(), self._down_ms())

    def _down_ms(self) -> int:
        return self.chance.choice((0, 100, 1_500))

    def _after_changes(self) -> int | None:
        return self.chance.choice((None, 0, 1, 3, 10))
