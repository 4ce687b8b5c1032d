"""Plans the next reassignments and preferred leader elections that balance the brokers. Pure: facts in, a plan out.

The goals, by priority; a goal is never sacrificed for a later one:

    1  preferred leaders lead; a leaving broker leads no partition
    2  replicas move off leaving brokers: those being drained, and those that were away for too long
    3  partitions that were created with too few replicas, since there were too few brokers, get the missing ones
    4  every broker is the preferred leader of as many partitions as the others
    5  every broker has as many replicas as the others
    6  bytes in, bytes out and disk usage are even: hot replicas are swapped for cold ones

Apart from goal 3, a partition keeps its number of replicas, and its replicas stay in as many racks as before. Each move
strictly reduces the imbalance, so as long as the facts stay the same, planning ends and no move is undone. A partition
under reassignment counts with its target replicas. The planner keeps no state between calls.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from penstock.base.ids import TopicPartition

# Loads are even enough if no broker exceeds the average by more than this share.
TOLERANCE: Final = 0.1
# Measurements are not exact, so a swap has to reduce the imbalance by at least this much, and by this share of it: if a
# single partition is too hot for any broker, moving the others back and forth gains nothing.
_GAIN_MIN: Final = 0.005
_GAIN_SHARE_MIN: Final = 0.05
# The partitions of each broker that are candidates for a swap.
_CANDIDATES: Final = 24


class BrokerFact(NamedTuple):
    """A broker; `is_leaving` if it is being drained, or was away for too long."""

    node_id: int
    rack: str | None = None
    is_alive: bool = True
    is_leaving: bool = False


class PartitionFact(NamedTuple):
    """A partition. `is_moving`: it is being reassigned, and `replicas` are the target replicas.

    `bytes_in` and `bytes_out` are a second, produced and fetched by clients; `size` is that of one replica.
    `replicas_wanted` is the replication factor to reach as soon as there are enough brokers.
    """

    where: TopicPartition
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_moving: bool = False
    bytes_in: float = 0
    bytes_out: float = 0
    size: int = 0
    replicas_wanted: int = 0


class Limits(NamedTuple):
    """How many leaders and replicas may move at a time.

    `auto_leader_rebalance`: elect preferred leaders whenever they are in the ISR (`auto.leader.rebalance.enable`).
    """

    leaders: int
    replicas: int
    auto_leader_rebalance: bool = True


class PlannedReplicas(NamedTuple):
    """The target replicas of a partition, or a new order of the present ones: the first is the preferred leader."""

    where: TopicPartition
    replicas: tuple[int, ...]


@dataclass
class BalancingPlan:
    """The next steps: new orders of replicas and reassignments first, then preferred leader elections."""

    reorderings: list[PlannedReplicas] = field(default_factory=list)
    reassignments: list[PlannedReplicas] = field(default_factory=list)
    elections: list[TopicPartition] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.reorderings or self.reassignments or self.elections)


def plan(brokers: Iterable[BrokerFact], partitions: Iterable[PartitionFact], limits: Limits) -> BalancingPlan:
    """The next steps; an empty plan if the brokers are balanced, or cannot be balanced any better."""
    return _Planner(brokers, partitions, limits).plan()


class _Planner:
    """The facts as they will be after all planned steps, and the plan so far."""

    def __init__(
        self, brokers: Iterable[BrokerFact], partitions: Iterable[PartitionFact], limits: Limits
    ) -> None:
        self._brokers = {broker.node_id: broker for broker in brokers}
        self._available = sorted(
            node_id for node_id, each in self._brokers.items() if each.is_alive and not each.is_leaving
        )
        self._partitions = {fact.where: fact for fact in sorted(partitions)}
        self._plan = BalancingPlan()
        self._limits = limits
        self._leaders_left = limits.leaders
        # A reassignment that waits for a fenced broker does not count against the limit.
        alive = {node_id for node_id, each in self._brokers.items() if each.is_alive}
        moving = sum(fact.is_moving and alive >= set(fact.replicas) for fact in self._partitions.values())
        self._replicas_left = max(0, limits.replicas - moving)
        self._preferred_counts: Counter[int] = Counter()
        self._replica_counts: Counter[int] = Counter()
        self._topic_counts: Counter[tuple[int, str]] = Counter()
        for fact in self._partitions.values():
            self._count(fact, 1)
        self._touched: set[TopicPartition] = set()

    def plan(self) -> BalancingPlan:
        if self._available:
            self._demote_leaving()
            self._move_off_leaving()
            self._add_missing()
            self._balance_leaders()
            self._balance_replicas()
            if not self._plan.reassignments and not any(fact.is_moving for fact in self._partitions.values()):
                self._balance_loads()
        self._elect_preferred()
        return self._plan

    # The plan.

    def _count(self, fact: PartitionFact, sign: int) -> None:
        self._preferred_counts[fact.replicas[0]] += sign
        for node_id in fact.replicas:
            self._replica_counts[node_id] += sign
            self._topic_counts[node_id, fact.where.topic] += sign

    def _put(self, fact: PartitionFact, replicas: tuple[int, ...]) -> None:
        """Plan a reassignment, or a new order of the same replicas."""
        is_reordering = set(replicas) == set(fact.replicas)
        changed = fact._replace(replicas=replicas, is_moving=not is_reordering)
        self._count(fact, -1)
        self._count(changed, 1)
        self._partitions[fact.where] = changed
        self._touched.add(fact.where)
        if is_reordering:
            self._leaders_left -= 1
            self._plan.reorderings.append(PlannedReplicas(fact.where, replicas))
        else:
            self._replicas_left -= 1
            self._plan.reassignments.append(PlannedReplicas(fact.where, replicas))

    def _movable(self) -> Iterator[PartitionFact]:
        """The partitions with a leader that are not being reassigned and have no planned step yet."""
        for fact in list(self._partitions.values()):
            if not fact.is_moving and fact.where not in self._touched and fact.leader in fact.isr:
                yield fact

    def _fully_in_sync(self) -> Iterator[PartitionFact]:
        """Those of them whose replicas are all in the ISR and on available brokers: balancing may move them."""
        available = set(self._available)
        return (
            fact
            for fact in self._movable()
            if set(fact.isr) >= set(fact.replicas) and available >= set(fact.replicas)
        )

    # 1  Preferred leaders.

    def _demote_leaving(self) -> None:
        """Put leaving brokers last in the replica lists, so that none of them is a preferred leader."""
        for fact in self._movable():
            if self._leaders_left <= 0:
                return
            order = tuple(sorted(fact.replicas, key=self._is_leaving))
            if order != fact.replicas and order[0] in fact.isr:
                self._put(fact, order)

    def _is_leaving(self, node_id: int) -> bool:
        broker = self._brokers.get(node_id)
        return broker is None or broker.is_leaving

    def _elect_preferred(self) -> None:
        """Elect preferred leaders. A broker that leads no partition gets only one at first: clients have no connection
        to it yet, and produce requests to that partition wait until they have connected. The next run elects the rest.
        """
        leading = {fact.leader for fact in self._partitions.values()}
        getting_first: set[int] = set()
        for fact in self._partitions.values():
            if len(self._plan.elections) >= self._limits.leaders:
                return
            preferred = fact.replicas[0]
            if not (
                self._limits.auto_leader_rebalance
                or fact.where in self._touched
                or self._is_leaving(fact.leader)
            ):
                continue
            if fact.leader != preferred and preferred in fact.isr and preferred in self._available:
                if preferred not in leading:
                    if preferred in getting_first:
                        continue
                    getting_first.add(preferred)
                self._plan.elections.append(fact.where)

    # 2  Replicas on leaving brokers.

    def _move_off_leaving(self) -> None:
        for fact in self._movable():
            if self._replicas_left <= 0:
                return
            replicas = fact.replicas
            for node_id in filter(self._is_leaving, fact.replicas):
                found = self._best_target(fact.where.topic, replicas, node_id)
                if found is None:
                    break
                replicas = _replaced(replicas, node_id, found)
            if replicas != fact.replicas:
                self._put(fact, replicas)

    def _best_target(self, topic: str, replicas: tuple[int, ...], leaving: int | None = None) -> int | None:
        """The broker for a new replica, in place of one on `leaving` if given: by racks, then by fewest replicas."""
        able = [node_id for node_id in self._available if node_id not in replicas]
        stay = tuple(node_id for node_id in replicas if node_id != leaving)
        return min(
            able,
            key=lambda taker: (
                -self._rack_count((*stay, taker)),
                self._replica_counts[taker],
                self._topic_counts[taker, topic],
                taker,
            ),
            default=None,
        )

    def _rack_count(self, replicas: Sequence[int]) -> int:
        known = (self._brokers.get(node_id) for node_id in replicas)
        return len({None if broker is None else broker.rack for broker in known})

    def _keeps_racks(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        return self._rack_count(after) >= self._rack_count(before)

    # 3  Missing replicas.

    def _add_missing(self) -> None:
        for fact in self._movable():
            if self._replicas_left <= 0:
                return
            replicas = fact.replicas
            while len(replicas) < fact.replicas_wanted:
                found = self._best_target(fact.where.topic, replicas)
                if found is None:
                    break
                replicas = (*replicas, found)
            if replicas != fact.replicas:
                self._put(fact, replicas)

    # 4  The number of preferred leaders.

    def _balance_leaders(self) -> None:
        while self._leaders_left > 0:
            path = self._leader_path()
            if path is None:
                return
            for fact, taker in path:
                others = tuple(node_id for node_id in fact.replicas if node_id != taker)
                self._put(fact, (taker, *others))

    def _leader_path(self) -> list[tuple[PartitionFact, int]] | None:
        """New orders of replicas that move one preferred leader from a broker to one that has at least two fewer,
        directly or along a path over other brokers.
        """
        edges: dict[int, dict[int, PartitionFact]] = {}
        for fact in self._fully_in_sync():
            for node_id in fact.replicas[1:]:
                edges.setdefault(fact.replicas[0], {}).setdefault(node_id, fact)
        for giver in sorted(self._available, key=lambda node_id: (-self._preferred_counts[node_id], node_id)):
            came_from: dict[int, tuple[int, PartitionFact]] = {}
            queue = deque([giver])
            while queue:
                at = queue.popleft()
                if self._preferred_counts[giver] - self._preferred_counts[at] >= 2:
                    return _path_back(came_from, giver, at)
                for node_id, fact in edges.get(at, {}).items():
                    if node_id != giver and node_id not in came_from:
                        came_from[node_id] = at, fact
                        queue.append(node_id)
        return None

    # 5  The number of replicas.

    def _balance_replicas(self) -> None:
        while self._replicas_left > 0:
            found = self._best_transfer()
            if found is None:
                return
            fact, giver, taker = found
            self._put(fact, _replaced(fact.replicas, giver, taker))

    def _best_transfer(self) -> tuple[PartitionFact, int, int] | None:
        """A replica to move to a broker that has at least two fewer, if possible from the fullest to the emptiest."""
        by_broker: dict[int, list[PartitionFact]] = {}
        for fact in self._fully_in_sync():
            for node_id in fact.replicas:
                by_broker.setdefault(node_id, []).append(fact)
        fullest = sorted(self._available, key=lambda node_id: (-self._replica_counts[node_id], node_id))
        for giver in fullest:
            for taker in reversed(fullest):
                if self._replica_counts[giver] - self._replica_counts[taker] < 2:
                    break
                able = [
                    fact
                    for fact in by_broker.get(giver, ())
                    if taker not in fact.replicas
                    and self._keeps_racks(fact.replicas, _replaced(fact.replicas, giver, taker))
                ]
                if able:
                    return (
                        min(able, key=lambda fact: self._cost_of_transfer(fact, giver, taker)),
                        giver,
                        taker,
                    )
        return None

    def _cost_of_transfer(self, fact: PartitionFact, giver: int, taker: int) -> tuple[object, ...]:
        """Prefer replicas that also even out preferred leaders, then topics the giver has most of, then small ones."""
        leads = fact.replicas[0] == giver
        topic = fact.where.topic
        return (
            leads != (self._preferred_counts[giver] > self._preferred_counts[taker]),
            self._topic_counts[taker, topic] - self._topic_counts[giver, topic],
            fact.size,
            fact.where,
        )

    # 6  Loads.

    def _balance_loads(self) -> None:
        """Swap hot replicas for cold ones, one for one and leader for leader: the counts of goals 4 and 5 stay."""
        while self._replicas_left >= 2:
            loads = _Loads(self._available, self._partitions.values())
            hottest = loads.hottest()
            if hottest is None:
                return
            swaps = (
                (loads.imbalance_after(first, second, hottest, other), first, second, other)
                for other in self._available
                if other != hottest
                for first, second in self._swaps(loads, hottest, other)
            )
            best = min(swaps, default=None)
            now = loads.imbalance()
            if best is None or best[0] > now - max(_GAIN_MIN, _GAIN_SHARE_MIN * now):
                return
            _, first, second, other = best
            self._swap(first, second, hottest, other)

    def _swaps(
        self, loads: "_Loads", hottest: int, other: int
    ) -> Iterator[tuple[PartitionFact, PartitionFact]]:
        whole = list(self._fully_in_sync())
        for leads in (True, False):
            givers = sorted(
                (fact for fact in whole if _role(fact, hottest) is leads), key=loads.weight, reverse=True
            )
            takers = sorted((fact for fact in whole if _role(fact, other) is leads), key=loads.weight)
            for first in islice(givers, _CANDIDATES):
                for second in islice(takers, _CANDIDATES):
                    if self._can_swap(first, second, hottest, other):
                        yield first, second

    def _can_swap(self, first: PartitionFact, second: PartitionFact, hottest: int, other: int) -> bool:
        if first.where == second.where or (other in first.replicas) != (hottest in second.replicas):
            return False  # one broker would have more replicas than before
        if other in first.replicas and first.replicas[0] != hottest:
            return False  # one broker might lead more partitions than before
        after_first, after_second = _swapped(first, hottest, other), _swapped(second, other, hottest)
        return self._keeps_racks(first.replicas, after_first) and self._keeps_racks(
            second.replicas, after_second
        )

    def _swap(self, first: PartitionFact, second: PartitionFact, hottest: int, other: int) -> None:
        self._put(first, _swapped(first, hottest, other))
        self._put(second, _swapped(second, other, hottest))


class _Loads:
    """Bytes in, bytes out and disk usage of each broker, as shares of the average."""

    def __init__(self, brokers: Sequence[int], facts: Iterable[PartitionFact]) -> None:
        totals: dict[int, list[float]] = {node_id: [0.0, 0.0, 0.0] for node_id in brokers}
        for fact in facts:
            for node_id in fact.replicas:
                if node_id in totals:
                    _add(totals[node_id], _load(fact, leads=node_id == fact.replicas[0]), 1)
        self._averages = [sum(column) / len(brokers) for column in zip(*totals.values(), strict=True)]
        self._shares = {node_id: self._share(total) for node_id, total in totals.items()}

    def _share(self, total: Sequence[float]) -> list[float]:
        return [
            value / average if average else 1.0 for value, average in zip(total, self._averages, strict=True)
        ]

    def hottest(self) -> int | None:
        """The broker that exceeds the average most, in any of the three; None if all are within `TOLERANCE`."""
        node_id = max(self._shares, key=lambda each: (max(self._shares[each]), -each))
        return node_id if max(self._shares[node_id]) > 1 + TOLERANCE else None

    def weight(self, fact: PartitionFact) -> tuple[float, TopicPartition]:
        return sum(self._share_of(fact, leads=True)), fact.where

    def imbalance(self) -> float:
        return _imbalance(self._shares)

    def imbalance_after(self, first: PartitionFact, second: PartitionFact, hottest: int, other: int) -> float:
        """The imbalance after two brokers have swapped a replica each."""
        shares = {**self._shares, hottest: list(self._shares[hottest]), other: list(self._shares[other])}
        for fact, giver, taker in ((first, hottest, other), (second, other, hottest)):
            after = _swapped(fact, giver, taker)
            for replicas, sign in ((fact.replicas, -1), (after, 1)):
                for node_id in (giver, taker):
                    if node_id in replicas:
                        _add(shares[node_id], self._share_of(fact, leads=node_id == replicas[0]), sign)
        return _imbalance(shares)

    def _share_of(self, fact: PartitionFact, *, leads: bool) -> list[float]:
        return [
            value / average if average else 0.0
            for value, average in zip(_load(fact, leads=leads), self._averages, strict=True)
        ]


def _load(fact: PartitionFact, *, leads: bool) -> tuple[float, float, float]:
    """The load of a replica on its broker: bytes in, bytes out, disk. A leader also sends to its followers."""
    out = fact.bytes_out + fact.bytes_in * (len(fact.replicas) - 1) if leads else 0.0
    return fact.bytes_in, out, float(fact.size)


def _imbalance(shares: Mapping[int, Sequence[float]]) -> float:
    return sum((value - 1) ** 2 for share in shares.values() for value in share)


def _add(total: list[float], load: Sequence[float], sign: int) -> None:
    for column, value in enumerate(load):
        total[column] += sign * value


def _role(fact: PartitionFact, node_id: int) -> bool | None:
    """Whether a broker is the preferred leader of a partition; None if it has no replica of it."""
    return fact.replicas[0] == node_id if node_id in fact.replicas else None


def _replaced(replicas: tuple[int, ...], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if node_id == old else node_id for node_id in replicas)


def _swapped(fact: PartitionFact, giver: int, taker: int) -> tuple[int, ...]:
    """The replicas with the taker in the giver's place, and the giver in the taker's if both have a replica."""
    places = {giver: taker, taker: giver}
    return tuple(places.get(node_id, node_id) for node_id in fact.replicas)


def _path_back(
    came_from: Mapping[int, tuple[int, PartitionFact]], giver: int, taker: int
) -> list[tuple[PartitionFact, int]]:
    path = []
    while taker != giver:
        before, fact = came_from[taker]
        path.append((fact, taker))
        taker = before
    return path
