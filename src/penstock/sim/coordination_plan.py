"""Plans of groups and transactions: members that come and go, transactions of all ends, copies exactly once.

A family of its own beside `plan`, with seeds of its own. Its topics are neither deleted nor cut, so that what a group
has committed always means something, and nothing flips bits: what a coordinator promises is the question here.

Half of the plans sync every batch before it is answered, those of the coordinators included, and go through crashes of
both kinds with everything kept. Of the others, some lose power: then only that all works again is promised.
"""

from collections.abc import Callable
from random import Random

from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.sim import entries as kinds
from penstock.sim.coordination_actors import CLASSIC, CONSUMER, MemberPlan, TransactorPlan
from penstock.sim.entries import Fault, Operation
from penstock.sim.plan import OPERATIONS_PER_FAULT, Drawing, Plan, WriterPlan, with_foreign_directories
from penstock.sim.topic_plans import FOREVER, TopicPlan

OPERATION_COUNT = 70
FLUSHES_ALWAYS = ("log.flush.interval.messages", "1")

_DURATION_MS = (8_000, 25_000)
_BUSY_MOMENTS = 8
_INPUT, _OTHER, _COPIES = "input", "other", "copies"


# Simulated requests hardly ever come in one turn of the loop: only with this are decisions gathered.
_LINGER = ("group.coordinator.append.linger.ms", "30")


def make_coordination_plan(seed: int, *, operation_count: int = OPERATION_COUNT) -> Plan:
    """What a seed of this family stands for."""
    plan = CoordinationDrawing(seed).plan(operation_count)
    return with_foreign_directories(plan, faults_max=operation_count // OPERATIONS_PER_FAULT)


class CoordinationDrawing(Drawing):
    """One plan in the making."""

    family = "coordination"

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = Random(f"{self.family}/{seed}")
        self.duration_ms = chance.randint(*_DURATION_MS)
        self.busy_ms = [chance.randrange(self.duration_ms) for _ in range(_BUSY_MOMENTS)]
        self.flushed = chance.random() < 0.5
        self.compacts = chance.random() < 0.5
        self.loses_power = self.flushed or chance.random() < 0.3
        self.topics = [self._new_topic(name) for name in (_INPUT, _OTHER, _COPIES)]
        self.writers = [WriterPlan("writer-0", idempotent=True, acks=-1)]
        self.readers = ["reader-0"]
        self.keys = [""]
        self.protocol = chance.choice((CLASSIC, CONSUMER))
        copiers = [self._copier(number) for number in range(chance.randint(0, 2))]
        self.members = [
            self._member(number) for number in range(chance.randint(0 if copiers else 1, 3))
        ] + copiers
        self.transactors = [
            TransactorPlan(f"transactor-{number}", chance.choice((1_000, 4_000, 60_000)))
            for number in range(chance.randint(0, 2))
        ]

    def plan(self, operation_count: int) -> Plan:
        plan = super().plan(operation_count)
        finish = plan.finish if self.loses_power else self.chance.choice(("restart", "crash-process"))
        return Plan(
            plan.seed,
            plan.topics,
            plan.writers,
            plan.readers,
            plan.broker,
            finish,
            plan.entries,
            tuple(self.members),
            tuple(self.transactors),
        )

    def _new_topic(self, name: str) -> TopicPlan:
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": FOREVER,
            "retention.bytes": FOREVER,
            "internal.segment.bytes": str(self.chance.choice((700, 20_000))),
        }
        if self.flushed:
            configs["flush.messages"] = "1"
        return TopicPlan(name, self.chance.randint(1, 2), configs)

    def _member(self, number: int) -> MemberPlan:
        topics = self.chance.choice(((_INPUT,), (_INPUT, _OTHER)))
        return MemberPlan(f"member-{number}", f"{self.protocol}-group", topics, self.protocol)

    def _copier(self, number: int) -> MemberPlan:
        protocol = CLASSIC if self.protocol == CONSUMER else CONSUMER
        partitions = self.topics[2].partitions
        return MemberPlan(f"copier-{number}", f"{protocol}-copiers", (_INPUT,), protocol, _COPIES, partitions)

    def _broker_settings(self) -> tuple[tuple[str, str], ...]:
        chance = self.chance
        return (
            *super()._broker_settings(),
            *((FLUSHES_ALWAYS,) if self.flushed else ()),
            ("offsets.topic.num.partitions", str(chance.choice((1, 2)))),
            ("transaction.state.log.num.partitions", str(chance.choice((1, 2)))),
            ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
            ("group.initial.rebalance.delay.ms", str(chance.choice((0, 300)))),
            ("group.min.session.timeout.ms", "500"),
            ("group.consumer.min.session.timeout.ms", "500"),
            ("group.consumer.session.timeout.ms", str(chance.choice((1_500, 4_000)))),
            ("group.consumer.min.heartbeat.interval.ms", "100"),
            ("group.consumer.heartbeat.interval.ms", "500"),
            ("group.consumer.assignment.interval.ms", "0"),
            *((_LINGER,) if self.seed % 5 == 2 else ()),
        )

    # ---- operations

    def _beginning(self) -> list[Operation]:
        joining = [kinds.JoinGroup(100, member.name, self._commit_every()) for member in self.members]
        return [*super()._beginning(), *joining, *(self._compaction() if self.compacts else ())]

    def _compaction(self) -> list[Operation]:
        """The logs of coordinators are compacted all the time, and not only by the hour."""
        return [
            kinds.AlterTopic(at_ms, "admin", topic, name, value)
            for at_ms in (600, 2_500)  # the first may be too early
            for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE)
            for name, value in (("internal.segment.bytes", "1500"), ("min.cleanable.dirty.ratio", "0"))
        ]

    def _operations(self) -> list[tuple[int, Callable[[], Operation]]]:
        return [
            (self.chance.choice((10, 20)), self._send),
            (4, self._read),
            (self.chance.choice((0, 3, 10)), self._join_or_leave),
            (self.chance.choice((5, 20)) if self.transactors else 0, self._transact),
        ]

    def _topic(self) -> TopicPlan:
        """Copiers alone write copies."""
        return self.chance.choice(self.topics[:2])

    def _commit_every(self) -> int:
        return self.chance.choice((1, 1, 3))

    def _join_or_leave(self) -> Operation:
        member = self.chance.choice(self.members).name
        if self.chance.random() < 0.5:
            return kinds.JoinGroup(self._moment_ms(), member, self._commit_every())
        return kinds.LeaveGroup(self._moment_ms(), member, says_so=self.chance.random() < 0.5)

    def _transact(self) -> Operation:
        chance = self.chance
        topics = [self._topic() for _ in range(chance.randint(1, 3))]
        return kinds.Transact(
            self._moment_ms(),
            chance.choice(self.transactors).name,
            tuple(topic.name for topic in topics),
            tuple(chance.randrange(topic.partitions) for topic in topics),
            chance.choice((1, 3)),
            chance.choice((0, 0, 5, 50, 2_000)),
            commits=chance.random() < 0.7,
        )

    # ---- faults

    def _fault_draws(self) -> list[Callable[[], Fault]]:
        return [draw for draw in super()._fault_draws() if draw().kind != kinds.FlipBit.kind]

    def _crash_machine(self) -> Fault:
        return super()._crash_machine() if self.loses_power else self._crash_process()

    def _client(self) -> str:
        members = [member.name for member in self.members]
        writers = [writer.name for writer in self.writers]
        transactors = [transactor.name for transactor in self.transactors]
        return self.chance.choice([*members, *members, *writers, *transactors])

    def _while_ms(self) -> int:
        """Sometimes longer than a session: the member comes back, and its partitions are assigned to others."""
        return self.chance.choice((50, 500, 3_000, 6_000))
