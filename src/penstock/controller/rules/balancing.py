"""Which leaders and replicas to move next, so that brokers have equal shares. Pure: facts in, a few moves out.

What comes first is never given up for what comes later:

    1  preferred leaders lead; a broker that is leaving leads nothing
    2  replicas leave the brokers that are leaving: those being drained, and those gone for good
    3  partitions that were to have more replicas, when there were too few brokers, get them
    4  every broker is the preferred leader of as many partitions as the others
    5  every broker has as many replicas as the others
    6  bytes in, bytes out and disk are even, by exchanging what is hot for what is not

Any other partition keeps its number of replicas, and its replicas stay in as many racks as they are in. Each move
makes the shares more even by a strict measure, so moves come to an end and none is taken back, as long as the facts
stay. A partition whose replicas are being exchanged counts as if that were done. Nothing is remembered between calls.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from penstock.base.ids import TopicPartition

# Loads are even enough if no broker has so much more than its share. What is measured is never exact, so an exchange is
# worth its while only if it takes away so much of the unevenness, and such a share of it: where a single partition is
# too hot for any broker, nothing is gained by moving the others to and fro.
TOLERANCE: Final = 0.1
_WORTH: Final = 0.005
_WORTH_SHARE: Final = 0.05
# Of each broker so many partitions are looked at as candidates of an exchange.
_CANDIDATES: Final = 24


class BrokerFact(NamedTuple):
    """A broker; `is_leaving` if it is being drained, or gone for good."""

    node_id: int
    rack: str | None = None
    is_alive: bool = True
    is_leaving: bool = False


class PartitionFact(NamedTuple):
    """A partition. If its replicas are being exchanged, `replicas` are those it will have.

    Bytes are those a second that clients send and fetch; `size` is that of one replica. `replicas_wanted`: it is to
    have as many as soon as there are brokers for them.
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
    """How much may be under way at a time; whether preferred leaders that are back lead again."""

    leaders: int
    replicas: int
    gives_back: bool = True


class PlannedReplicas(NamedTuple):
    """Other replicas for a partition, or another order of them: the first is preferred as leader."""

    where: TopicPartition
    replicas: tuple[int, ...]


@dataclass
class BalancingPlan:
    """What to do next: orders and exchanges of replicas first, then elections of preferred leaders."""

    orders: list[PlannedReplicas] = field(default_factory=list)
    reassignments: list[PlannedReplicas] = field(default_factory=list)
    elections: list[TopicPartition] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.orders or self.reassignments or self.elections)


def plan(brokers: Iterable[BrokerFact], partitions: Iterable[PartitionFact], limits: Limits) -> BalancingPlan:
    """The next moves; none if all is as it should be, or as good as it gets."""
    return _Planner(brokers, partitions, limits).plan()


class _Planner:
    """The facts, as they will be when what is planned so far is done."""

    def __init__(
        self, brokers: Iterable[BrokerFact], partitions: Iterable[PartitionFact], limits: Limits
    ) -> None:
        self._brokers = {broker.node_id: broker for broker in brokers}
        self._takers = sorted(
            node_id for node_id, each in self._brokers.items() if each.is_alive and not each.is_leaving
        )
        self._partitions = {fact.where: fact for fact in sorted(partitions)}
        self._plan = BalancingPlan()
        self._limits = limits
        self._leaders_left = limits.leaders
        # What waits for a broker that is away keeps nobody else waiting.
        alive = {node_id for node_id, each in self._brokers.items() if each.is_alive}
        moving = sum(fact.is_moving and alive >= set(fact.replicas) for fact in self._partitions.values())
        self._replicas_left = max(0, limits.replicas - moving)
        self._leads: Counter[int] = Counter()
        self._holds: Counter[int] = Counter()
        self._of_topic: Counter[tuple[int, str]] = Counter()
        for fact in self._partitions.values():
            self._count(fact, 1)
        self._touched: set[TopicPartition] = set()

    def plan(self) -> BalancingPlan:
        if self._takers:
            self._release_leaders()
            self._replace_leaving()
            self._add_wanted()
            self._even_leaders()
            self._even_replicas()
            if not self._plan.reassignments and not any(fact.is_moving for fact in self._partitions.values()):
                self._even_loads()
        self._elect_preferred()
        return self._plan

    # What is planned.

    def _count(self, fact: PartitionFact, sign: int) -> None:
        self._leads[fact.replicas[0]] += sign
        for node_id in fact.replicas:
            self._holds[node_id] += sign
            self._of_topic[node_id, fact.where.topic] += sign

    def _put(self, fact: PartitionFact, replicas: tuple[int, ...]) -> None:
        """Plan other replicas, or another order of them."""
        is_order = set(replicas) == set(fact.replicas)
        changed = fact._replace(replicas=replicas, is_moving=not is_order)
        self._count(fact, -1)
        self._count(changed, 1)
        self._partitions[fact.where] = changed
        self._touched.add(fact.where)
        if is_order:
            self._leaders_left -= 1
            self._plan.orders.append(PlannedReplicas(fact.where, replicas))
        else:
            self._replicas_left -= 1
            self._plan.reassignments.append(PlannedReplicas(fact.where, replicas))

    def _led(self) -> Iterator[PartitionFact]:
        """The partitions of which something may be planned: somebody leads them, and nothing is under way."""
        for fact in list(self._partitions.values()):
            if not fact.is_moving and fact.where not in self._touched and fact.leader in fact.isr:
                yield fact

    def _whole(self) -> Iterator[PartitionFact]:
        """Those of them that lack nothing, and can be moved for the sake of evenness."""
        takers = set(self._takers)
        return (
            fact
            for fact in self._led()
            if set(fact.isr) >= set(fact.replicas) and takers >= set(fact.replicas)
        )

    # 1  Leaders.

    def _release_leaders(self) -> None:
        """Brokers that are leaving come last in the order of preference."""
        for fact in self._led():
            if self._leaders_left <= 0:
                return
            order = tuple(sorted(fact.replicas, key=self._is_leaving))
            if order != fact.replicas and order[0] in fact.isr:
                self._put(fact, order)

    def _is_leaving(self, node_id: int) -> bool:
        broker = self._brokers.get(node_id)
        return broker is None or broker.is_leaving

    def _elect_preferred(self) -> None:
        """A broker that leads nothing gets one leader first: clients have no connection to it yet, and what they send
        to that partition has to wait until they do. By the next look they have one, and the others follow.
        """
        leading = {fact.leader for fact in self._partitions.values()}
        greeted: set[int] = set()
        for fact in self._partitions.values():
            if len(self._plan.elections) >= self._limits.leaders:
                return
            preferred = fact.replicas[0]
            if not (self._limits.gives_back or fact.where in self._touched or self._is_leaving(fact.leader)):
                continue
            if fact.leader != preferred and preferred in fact.isr and preferred in self._takers:
                if preferred not in leading:
                    if preferred in greeted:
                        continue
                    greeted.add(preferred)
                self._plan.elections.append(fact.where)

    # 2  Replicas of brokers that are leaving.

    def _replace_leaving(self) -> None:
        for fact in self._led():
            if self._replicas_left <= 0:
                return
            replicas = fact.replicas
            for node_id in filter(self._is_leaving, fact.replicas):
                found = self._best_taker(fact.where.topic, replicas, node_id)
                if found is None:
                    break
                replicas = _replaced(replicas, node_id, found)
            if replicas != fact.replicas:
                self._put(fact, replicas)

    def _best_taker(self, topic: str, replicas: tuple[int, ...], leaving: int | None = None) -> int | None:
        """Who takes a replica over, or gets another one: first by racks, then whoever has least."""
        able = [node_id for node_id in self._takers if node_id not in replicas]
        stay = tuple(node_id for node_id in replicas if node_id != leaving)
        return min(
            able,
            key=lambda taker: (
                -self._rack_count((*stay, taker)),
                self._holds[taker],
                self._of_topic[taker, topic],
                taker,
            ),
            default=None,
        )

    def _rack_count(self, replicas: Sequence[int]) -> int:
        known = (self._brokers.get(node_id) for node_id in replicas)
        return len({None if broker is None else broker.rack for broker in known})

    def _keeps_racks(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        return self._rack_count(after) >= self._rack_count(before)

    # 3  Replicas that were always wanted.

    def _add_wanted(self) -> None:
        for fact in self._led():
            if self._replicas_left <= 0:
                return
            replicas = fact.replicas
            while len(replicas) < fact.replicas_wanted:
                found = self._best_taker(fact.where.topic, replicas)
                if found is None:
                    break
                replicas = (*replicas, found)
            if replicas != fact.replicas:
                self._put(fact, replicas)

    # 4  As many leaders on each broker.

    def _even_leaders(self) -> None:
        while self._leaders_left > 0:
            path = self._path_of_leaders()
            if path is None:
                return
            for fact, taker in path:
                others = tuple(node_id for node_id in fact.replicas if node_id != taker)
                self._put(fact, (taker, *others))

    def _path_of_leaders(self) -> list[tuple[PartitionFact, int]] | None:
        """Changes of order that take a leader from one that has two more than another, over others if need be."""
        edges: dict[int, dict[int, PartitionFact]] = {}
        for fact in self._whole():
            for node_id in fact.replicas[1:]:
                edges.setdefault(fact.replicas[0], {}).setdefault(node_id, fact)
        for giver in sorted(self._takers, key=lambda node_id: (-self._leads[node_id], node_id)):
            came_from: dict[int, tuple[int, PartitionFact]] = {}
            queue = deque([giver])
            while queue:
                at = queue.popleft()
                if self._leads[giver] - self._leads[at] >= 2:
                    return _path_back(came_from, giver, at)
                for node_id, fact in edges.get(at, {}).items():
                    if node_id != giver and node_id not in came_from:
                        came_from[node_id] = at, fact
                        queue.append(node_id)
        return None

    # 5  As many replicas on each broker.

    def _even_replicas(self) -> None:
        while self._replicas_left > 0:
            found = self._best_transfer()
            if found is None:
                return
            fact, giver, taker = found
            self._put(fact, _replaced(fact.replicas, giver, taker))

    def _best_transfer(self) -> tuple[PartitionFact, int, int] | None:
        """A replica for one that has two fewer than another; of the fullest first, for the emptiest."""
        by_broker: dict[int, list[PartitionFact]] = {}
        for fact in self._whole():
            for node_id in fact.replicas:
                by_broker.setdefault(node_id, []).append(fact)
        fullest = sorted(self._takers, key=lambda node_id: (-self._holds[node_id], node_id))
        for giver in fullest:
            for taker in reversed(fullest):
                if self._holds[giver] - self._holds[taker] < 2:
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
        """Rather what makes leaders even, too; then what the giver has most of, by topic; then what is small."""
        leads = fact.replicas[0] == giver
        topic = fact.where.topic
        return (
            leads != (self._leads[giver] > self._leads[taker]),
            self._of_topic[taker, topic] - self._of_topic[giver, topic],
            fact.size,
            fact.where,
        )

    # 6  As much to do for each broker.

    def _even_loads(self) -> None:
        """Exchange what is hot for what is not, one for one, in the same role: the counts stay as they are."""
        while self._replicas_left >= 2:
            loads = _Loads(self._takers, self._partitions.values())
            hottest = loads.hottest()
            if hottest is None:
                return
            swaps = (
                (loads.unevenness_after(first, second, hottest, other), first, second, other)
                for other in self._takers
                if other != hottest
                for first, second in self._swaps(loads, hottest, other)
            )
            best = min(swaps, default=None)
            now = loads.unevenness()
            if best is None or best[0] > now - max(_WORTH, _WORTH_SHARE * now):
                return
            _, first, second, other = best
            self._swap(first, second, hottest, other)

    def _swaps(
        self, loads: "_Loads", hottest: int, other: int
    ) -> Iterator[tuple[PartitionFact, PartitionFact]]:
        whole = list(self._whole())
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
            return False  # one of them would have more replicas than before
        if other in first.replicas and first.replicas[0] != hottest:
            return False  # or it might lead more
        after_first, after_second = _swapped(first, hottest, other), _swapped(second, other, hottest)
        return self._keeps_racks(first.replicas, after_first) and self._keeps_racks(
            second.replicas, after_second
        )

    def _swap(self, first: PartitionFact, second: PartitionFact, hottest: int, other: int) -> None:
        self._put(first, _swapped(first, hottest, other))
        self._put(second, _swapped(second, other, hottest))


class _Loads:
    """What each broker has to do, in each respect, as a share of the average."""

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
        """Who has most more than its share of anything; None if that is little."""
        node_id = max(self._shares, key=lambda each: (max(self._shares[each]), -each))
        return node_id if max(self._shares[node_id]) > 1 + TOLERANCE else None

    def weight(self, fact: PartitionFact) -> tuple[float, TopicPartition]:
        return sum(self._share_of(fact, leads=True)), fact.where

    def unevenness(self) -> float:
        return _unevenness(self._shares)

    def unevenness_after(
        self, first: PartitionFact, second: PartitionFact, hottest: int, other: int
    ) -> float:
        """If two brokers exchange a replica each."""
        shares = {**self._shares, hottest: list(self._shares[hottest]), other: list(self._shares[other])}
        for fact, giver, taker in ((first, hottest, other), (second, other, hottest)):
            after = _swapped(fact, giver, taker)
            for replicas, sign in ((fact.replicas, -1), (after, 1)):
                for node_id in (giver, taker):
                    if node_id in replicas:
                        _add(shares[node_id], self._share_of(fact, leads=node_id == replicas[0]), sign)
        return _unevenness(shares)

    def _share_of(self, fact: PartitionFact, *, leads: bool) -> list[float]:
        return [
            value / average if average else 0.0
            for value, average in zip(_load(fact, leads=leads), self._averages, strict=True)
        ]


def _load(fact: PartitionFact, *, leads: bool) -> tuple[float, float, float]:
    """What a replica makes its broker do: bytes in, bytes out, disk. Followers are fed by the leader."""
    out = fact.bytes_out + fact.bytes_in * (len(fact.replicas) - 1) if leads else 0.0
    return fact.bytes_in, out, float(fact.size)


def _unevenness(shares: Mapping[int, Sequence[float]]) -> float:
    return sum((value - 1) ** 2 for share in shares.values() for value in share)


def _add(total: list[float], load: Sequence[float], sign: int) -> None:
    for column, value in enumerate(load):
        total[column] += sign * value


def _role(fact: PartitionFact, node_id: int) -> bool | None:
    """Whether a broker leads a partition; None if it has none of it."""
    return fact.replicas[0] == node_id if node_id in fact.replicas else None


def _replaced(replicas: tuple[int, ...], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if node_id == old else node_id for node_id in replicas)


def _swapped(fact: PartitionFact, giver: int, taker: int) -> tuple[int, ...]:
    """The taker in the giver's place, and the giver in the taker's if that has a replica, too."""
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
