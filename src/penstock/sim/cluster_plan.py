"""Plans of clusters: three to five brokers that share a metadata store, and replicated topics.

A family of its own beside `plan`, with seeds of its own. Whatever the faults, nothing that was acknowledged with
acks=all may be lost, but for logs of which every in-sync machine was without power at once (`power`). One plan in three
has groups and transactions, whose coordinators move with the leaders of their topics. In most of them an operator
moves replicas, has leaders elected, drains brokers and takes that back, while the cluster balances itself. One plan in
three has topics of which a majority of the replicas counts, with up to five of them; one in two, writers that have
several batches in flight.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from random import Random

from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.sim import entries as kinds
from penstock.sim.coordination_plan import CoordinationDrawing
from penstock.sim.entries import Entry, Fault, Operation
from penstock.sim.plan import OPERATOR, Drawing, Plan, WriterPlan, with_foreign_directories
from penstock.sim.topic_plans import FOREVER, TopicPlan

OPERATION_COUNT = 60

_DURATION_MS = (6_000, 20_000)
_BUSY_MOMENTS = 8
_NODES = (3, 3, 3, 4, 5)
_FACTORS = (1, 2, 3, 3, 3, 3)
_COORDINATED_ONE_IN = 3
_MAJORITIES_ONE_IN = 3
_PIPELINING_ONE_IN = 2
_BURST_MAX = 6
_FOREIGN_MAX = 4
_QUIET_MS = 2_500  # at the beginning: with a broker less, topics cannot be created with all their replicas


def make_cluster_plan(seed: int, *, operation_count: int = OPERATION_COUNT) -> Plan:
    """What a seed of this family stands for."""
    is_coordinated = seed % _COORDINATED_ONE_IN == 0
    plan = (_CoordinatedCluster if is_coordinated else _Cluster)(seed).plan(operation_count)
    # Drawn apart, so that all else about a seed is as it would be without.
    chance = Random(f"majorities/{seed}")
    if chance.randrange(_MAJORITIES_ONE_IN) == 0:
        plan = _with_majorities(plan, chance)
    chance = Random(f"pipelining/{seed}")
    if chance.randrange(_PIPELINING_ONE_IN) == 0:
        plan = _with_pipelining(plan, chance)
    return with_foreign_directories(plan, faults_max=len(plan.faults) + _FOREIGN_MAX)


def _with_majorities(plan: Plan, chance: Random) -> Plan:
    """The same plan with most of its topics counting majorities."""
    return replace(
        plan,
        topics=tuple(
            replace(
                topic,
                configs={**topic.configs, "penstock.ack.quorum": "majority"},
                replication_factor=chance.choice((topic.replication_factor, min(3, plan.nodes), plan.nodes)),
            )
            if chance.random() < 0.8
            else topic
            for topic in plan.topics
        ),
    )


def _with_pipelining(plan: Plan, chance: Random) -> Plan:
    """The same plan with most of its idempotent writers sending several batches where they sent one."""
    writers = [
        replace(writer, pipelines=writer.idempotent and chance.random() < 0.8) for writer in plan.writers
    ]
    pipelining = [writer.name for writer in writers if writer.pipelines]
    entries = [
        entry
        for entry in plan.entries
        for _ in range(chance.randint(1, _BURST_MAX) if _is_by(pipelining, entry) else 1)
    ]
    return replace(plan, writers=tuple(writers), entries=tuple(entries))


def _is_by(actors: Collection[str], entry: Entry) -> bool:
    return isinstance(entry, Operation) and entry.actor in actors


class _OfCluster(Drawing):
    """What all plans of clusters have: several nodes, and their faults."""

    nodes: int
    session_ms: int

    def plan(self, operation_count: int) -> Plan:
        return replace(super().plan(operation_count), nodes=self.nodes)

    def _draw_cluster(self) -> None:
        self.nodes = self.chance.choice(_NODES)
        self.session_ms = self.chance.choice((1_500, 4_000))

    def _replicated(self, topic: TopicPlan, factor: int) -> TopicPlan:
        """The same topic with so many replicas."""
        in_sync_min = 1 if factor == 1 else self.chance.choice((1, 2))
        configs = {**topic.configs, "min.insync.replicas": str(in_sync_min)}
        return replace(topic, configs=configs, replication_factor=factor)

    def _broker_settings(self) -> tuple[tuple[str, str], ...]:
        chance = self.chance
        return (
            *super()._broker_settings(),
            ("zookeeper.session.timeout.ms", str(self.session_ms)),
            ("replica.lag.time.max.ms", str(chance.choice((1_000, 30_000)))),
            ("penstock.balance.interval.ms", str(chance.choice((300, 2_000, 10_000)))),
            ("penstock.balance.replace.after.ms", str(chance.choice((3_000, 1_800_000)))),
            ("penstock.move.max.bytes.per.second", str(chance.choice((20_000, 32 << 20)))),
        )

    # ---- what an operator does

    def _operators(self) -> list[tuple[int, Callable[[], Operation]]]:
        weight = self.chance.choice((0, 1, 4))
        return [(2 * weight, self._move), (weight, self._elect), (weight, self._drain)]

    def _moved(self) -> tuple[str, int, bool]:
        """A partition whose replicas or leader may be changed, and whether it is to have several replicas."""
        topic = self.chance.choice(self.topics)
        return topic.name, self.chance.randrange(topic.partitions), topic.replication_factor > 1

    def _move(self) -> Operation:
        topic, partition, is_replicated = self._moved()
        replicas: list[int] = []
        if self.chance.random() < 0.8:
            fewest = 2 if is_replicated else 1
            count = self.chance.randint(fewest, min(fewest + 1, self.nodes))
            replicas = self.chance.sample(range(1, self.nodes + 1), count)
        return kinds.MoveReplicas(self._moment_ms(), OPERATOR, topic, partition, tuple(replicas))

    def _elect(self) -> Operation:
        topic, partition, _ = self._moved()
        return kinds.ElectPreferred(self._moment_ms(), OPERATOR, topic, partition)

    def _drain(self) -> Operation:
        kind = self.chance.choice((kinds.DrainBroker, kinds.DrainBroker, kinds.UndrainBroker))
        return kind(self._moment_ms(), OPERATOR, self._node())

    # ---- faults

    def _faults(self, count_max: int) -> list[Fault]:
        faults = [replace(each, node=self._node()) for each in super()._faults(2 * count_max)]
        faults = [each for each in faults if not _is_with_itself(each)]
        faults += self._rolling_restart() if self.chance.random() < 0.2 else ()
        return [replace(each, at_ms=each.at_ms + _QUIET_MS) for each in faults]

    def _rolling_restart(self) -> list[Fault]:
        """One after the other, whether the last one is back or not."""
        began_ms, pause_ms = self._moment_ms(), self.chance.choice((200, 2_000))
        return [
            kinds.Restart(began_ms + number * pause_ms, self._down_ms(), node=number + 1)
            for number in range(self.nodes)
        ]

    def _fault_draws(self) -> list[Callable[[], Fault]]:
        chance = self.chance
        of_one_node = [draw for draw in super()._fault_draws() if draw().kind != kinds.FlipBit.kind]
        return [
            *of_one_node,
            lambda: kinds.CrashSilently(self._moment_ms(), self._down_ms()),
            lambda: kinds.PauseNode(self._moment_ms(), self._while_ms()),
            lambda: kinds.CutPeers(
                self._moment_ms(), self._node(), self._while_ms(), one_way=chance.random() < 0.3
            ),
            lambda: kinds.IsolateNode(self._moment_ms(), self._while_ms()),
            lambda: kinds.CutStore(self._moment_ms(), self._while_ms(), silently=chance.random() < 0.5),
            lambda: kinds.ExpireSession(self._moment_ms()),
        ]

    def _node(self) -> int:
        return self.chance.randint(1, self.nodes)

    def _while_ms(self) -> int:
        """Longer than a session, too."""
        return self.chance.choice((50, 500, self.session_ms - 200, self.session_ms + 1_000))

    def _down_ms(self) -> int:
        return self.chance.choice((0, 100, 1_500, self.session_ms + 1_000))


def _is_with_itself(fault: Fault) -> bool:
    return isinstance(fault, kinds.CutPeers) and fault.other == fault.node


class _Cluster(_OfCluster):
    """Logs, and those who write, read and change them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = Random(f"cluster/{seed}")
        self._draw_cluster()
        self.duration_ms = chance.randint(*_DURATION_MS)
        self.busy_ms = [chance.randrange(self.duration_ms) for _ in range(_BUSY_MOMENTS)]
        self.topics = [self._new_topic(f"topic-{number}") for number in range(chance.randint(1, 3))]
        self.writers = [
            WriterPlan(f"writer-{number}", idempotent=chance.random() < 0.7, acks=-1)
            for number in range(chance.randint(1, 3))
        ]
        self.readers = [f"reader-{number}" for number in range(chance.randint(1, 2))]
        self.keys = ["", "key"]

    def _new_topic(self, name: str) -> TopicPlan:
        chance = self.chance
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": FOREVER,
            "retention.bytes": FOREVER,
            "internal.segment.bytes": str(chance.choice((700, 20_000))),
        }
        if chance.random() < 0.3:
            configs["flush.messages"] = "1"
        return self._replicated(TopicPlan(name, chance.randint(1, 3), configs), chance.choice(_FACTORS))

    # ---- operations

    def _operations(self) -> list[tuple[int, Callable[[], Operation]]]:
        admin_weight = self.chance.choice((0, 1, 4))
        return [
            (self.chance.choice((20, 60)), self._send),
            (self.chance.choice((10, 30)), self._read),
            (2, self._seek),
            (admin_weight, self._recreate),
            (admin_weight, self._alter),
            (admin_weight, self._grow),
            *self._operators(),
        ]

    def _alter(self) -> Operation:
        name, value = self.chance.choice((("internal.segment.bytes", "400"), ("index.interval.bytes", "1")))
        return kinds.AlterTopic(self._moment_ms(), "admin", self._topic().name, name, value)

    def _grow(self) -> Operation:
        return kinds.GrowTopic(self._moment_ms(), "admin", self._topic().name, self.chance.randint(1, 2))


class _CoordinatedCluster(_OfCluster, CoordinationDrawing):
    """Groups and transactions."""

    family = "coordinated cluster"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._draw_cluster()
        self.topics = [self._replicated(topic, 3) for topic in self.topics]

    def _operations(self) -> list[tuple[int, Callable[[], Operation]]]:
        return [*super()._operations(), *self._operators()]

    def _moved(self) -> tuple[str, int, bool]:
        """Those of the coordinators, too."""
        if self.chance.random() < 0.5:
            return super()._moved()
        return self.chance.choice((CONSUMER_OFFSETS, TRANSACTION_STATE)), 0, True

    def _broker_settings(self) -> tuple[tuple[str, str], ...]:
        return (
            *super()._broker_settings(),
            ("offsets.topic.replication.factor", "3"),
            ("transaction.state.log.replication.factor", "3"),
            ("transaction.state.log.min.isr", str(self.chance.choice((1, 2)))),
        )
