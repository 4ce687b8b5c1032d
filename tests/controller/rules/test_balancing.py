"""What the balancer plans, and where it leads: every plan is carried out on made-up facts until there is none left."""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.ids import TopicPartition
from penstock.controller.rules.balancing import (
    TOLERANCE,
    BalancingPlan,
    BrokerFact,
    Limits,
    PartitionFact,
    plan,
)

LIMITS = Limits(leaders=10, replicas=4)


def partition(number: int, *replicas: int, topic: str = "t", **more: Any) -> PartitionFact:
    return PartitionFact(TopicPartition(topic, number), replicas[0], replicas, replicas, **more)


def done(facts: Sequence[PartitionFact], planned: BalancingPlan) -> list[PartitionFact]:
    """The facts when a plan has been carried out."""
    by_place = {fact.where: fact for fact in facts}
    for where, replicas in planned.reorderings:
        assert set(replicas) == set(by_place[where].replicas)
        by_place[where] = by_place[where]._replace(replicas=replicas)
    for where, replicas in planned.reassignments:
        before = by_place[where]
        leader = before.leader if before.leader in replicas else replicas[0]
        by_place[where] = before._replace(replicas=replicas, isr=replicas, leader=leader)
    for where in planned.elections:
        assert by_place[where].replicas[0] in by_place[where].isr
        by_place[where] = by_place[where]._replace(leader=by_place[where].replicas[0])
    return list(by_place.values())


def balanced(
    brokers: Sequence[BrokerFact], facts: Sequence[PartitionFact], limits: Limits = LIMITS
) -> list[PartitionFact]:
    """Carry out plans until there is nothing left to do; nothing is ever as it was before."""
    *_, (last, _) = steps(brokers, facts, limits)
    return last


def steps(
    brokers: Sequence[BrokerFact], facts: Sequence[PartitionFact], limits: Limits = LIMITS
) -> Iterator[tuple[list[PartitionFact], BalancingPlan]]:
    seen = set()
    now = sorted(facts)
    while True:
        assert tuple(now) not in seen, "it goes round in circles"
        seen.add(tuple(now))
        planned = plan(brokers, now, limits)
        yield now, planned
        if planned.is_empty:
            return
        now = sorted(done(now, planned))


def replica_counts(brokers: Sequence[BrokerFact], facts: Sequence[PartitionFact]) -> dict[int, int]:
    counts = Counter(node_id for fact in facts for node_id in fact.replicas)
    return {broker.node_id: counts[broker.node_id] for broker in brokers}


def leader_counts(brokers: Sequence[BrokerFact], facts: Sequence[PartitionFact]) -> dict[int, int]:
    counts = Counter(fact.leader for fact in facts)
    return {broker.node_id: counts[broker.node_id] for broker in brokers}


def unevenness(brokers: Sequence[BrokerFact], facts: Sequence[PartitionFact]) -> float:
    """How far brokers are from their share, over all they have to do."""
    total = 0.0
    respects = (
        lambda fact, _: fact.bytes_in,
        lambda fact, leads: (fact.bytes_out + fact.bytes_in * (len(fact.replicas) - 1)) * leads,
        lambda fact, _: fact.size,
    )
    for load_of in respects:
        loads = [
            sum(
                load_of(fact, fact.leader == broker.node_id)
                for fact in facts
                if broker.node_id in fact.replicas
            )
            for broker in brokers
        ]
        average = sum(loads) / len(loads)
        total += sum((load / average - 1) ** 2 for load in loads) if average else 0
    return round(total, 6)


def squares(counts: dict[int, int]) -> int:
    return sum(count**2 for count in counts.values())


def spread(counts: dict[int, int]) -> int:
    return max(counts.values()) - min(counts.values())


@st.composite
def clusters(draw: st.DrawFn, *, racks: bool = False, loads: bool = False) -> tuple[Any, Any]:
    """Brokers, and partitions anywhere on them."""
    count = draw(st.integers(1, 6))
    rack = st.sampled_from(["a", "b", "c"]) if racks else st.none()
    brokers = [BrokerFact(node_id, draw(rack)) for node_id in range(1, count + 1)]
    load = st.floats(0, 1000) if loads else st.just(0.0)
    facts = []
    for number in range(draw(st.integers(0, 40))):
        factor = draw(st.integers(1, min(3, count)))
        replicas = tuple(draw(st.permutations(range(1, count + 1))))[:factor]
        facts.append(
            partition(
                number,
                *replicas,
                topic=draw(st.sampled_from(["s", "t"])),
                bytes_in=draw(load),
                bytes_out=draw(load),
                size=int(draw(load)),
            )
        )
    return brokers, facts


@given(clusters())
def test_replicas_and_leaders_become_even_wherever_they_were(cluster):
    brokers, facts = cluster
    after = balanced(brokers, facts)
    assert spread(replica_counts(brokers, after)) <= 1
    # Which brokers can lead depends on where replicas are, and single replicas cannot be led elsewhere.
    if all(len(fact.replicas) == len(brokers) for fact in facts):
        assert spread(leader_counts(brokers, after)) <= 1


@settings(max_examples=50)
@given(clusters(racks=True, loads=True), st.integers(1, 5), st.integers(1, 5))
def test_plans_come_to_an_end_and_keep_factors_racks_and_limits(cluster, leaders, replicas):
    brokers, facts = cluster
    limits = Limits(leaders, replicas)
    racks = {broker.node_id: broker.rack for broker in brokers}
    factors = {fact.where: len(fact.replicas) for fact in facts}
    rack_counts = {fact.where: len({racks[each] for each in fact.replicas}) for fact in facts}
    for now, planned in steps(brokers, facts, limits):
        assert len(planned.reassignments) <= replicas
        for fact in now:
            assert len(set(fact.replicas)) == factors[fact.where]
            assert len({racks[each] for each in fact.replicas}) >= rack_counts[fact.where]
            rack_counts[fact.where] = len({racks[each] for each in fact.replicas})


@settings(max_examples=50)
@given(clusters(racks=True), st.data())
def test_a_broker_that_is_leaving_is_emptied_as_far_as_others_can_take_it(cluster, data):
    brokers, facts = cluster
    leaving = data.draw(st.sampled_from([broker.node_id for broker in brokers]))
    is_alive = data.draw(st.booleans())
    if not is_alive:
        facts = [
            fact._replace(
                isr=tuple(each for each in fact.replicas if each != leaving),
                leader=next((each for each in fact.replicas if each != leaving), -1),
            )
            for fact in facts
        ]
    brokers = [
        broker._replace(is_leaving=True, is_alive=is_alive) if broker.node_id == leaving else broker
        for broker in brokers
    ]
    after = balanced(brokers, facts)
    for fact in after:
        could_go = len(fact.replicas) < len(brokers) and fact.leader in fact.isr
        assert (leaving not in fact.replicas) == could_go or leaving not in fact.replicas
        if len(fact.replicas) > 1:
            assert fact.leader != leaving
    assert Counter(len(fact.replicas) for fact in after) == Counter(len(fact.replicas) for fact in facts)


@settings(max_examples=50)
@given(clusters(), st.data())
def test_load_becomes_more_even_and_counts_stay_as_they_are(cluster, data):
    brokers, facts = cluster
    load = st.integers(0, 1000)
    facts = [
        fact._replace(bytes_in=data.draw(load), bytes_out=data.draw(load), size=data.draw(load))
        for fact in balanced(brokers, facts)
    ]
    after = balanced(brokers, facts)
    assert replica_counts(brokers, after) == replica_counts(brokers, facts)
    # What moved for the load's sake may let others lead than could before: that comes first.
    before_leaders, after_leaders = (squares(leader_counts(brokers, each)) for each in (facts, after))
    assert after_leaders <= before_leaders
    if after_leaders == before_leaders:
        assert unevenness(brokers, after) <= unevenness(brokers, facts)


def test_a_broker_that_joins_gets_its_share_of_replicas_and_leaders():
    facts = [partition(n, *(1 + (n + step) % 3 for step in range(3))) for n in range(40)]
    brokers = [BrokerFact(node_id) for node_id in (1, 2, 3, 4)]
    after = balanced(brokers, facts)
    assert set(replica_counts(brokers, after).values()) == {30}
    assert set(leader_counts(brokers, after).values()) == {10}
    moved = sum(len(set(fact.replicas) - {1, 2, 3}) for fact in after)
    assert moved == 30, "no more is copied than has to be"


def test_hot_partitions_are_spread_though_the_counts_were_even():
    brokers = [BrokerFact(node_id) for node_id in (1, 2, 3)]
    # Broker 1 leads all that is hot.
    facts = [partition(n, 1 + n % 3, bytes_in=900.0 if n % 3 == 0 else 10.0, size=5) for n in range(18)]
    after = balanced(brokers, facts)
    rates = {
        broker.node_id: sum(fact.bytes_in for fact in after if fact.leader == broker.node_id)
        for broker in brokers
    }
    assert max(rates.values()) <= (1 + TOLERANCE) * sum(rates.values()) / 3
    assert set(replica_counts(brokers, after).values()) == {6}


def test_noise_in_what_is_measured_moves_nothing_to_and_fro():
    brokers = [BrokerFact(node_id) for node_id in (1, 2, 3)]
    random = Random(4)
    rates = [random.paretovariate(1.2) for _ in range(20)]
    rates[0] = sum(rates)  # too hot for any broker: it never gets even
    facts = balanced(brokers, [partition(n, *random.sample((1, 2, 3), 2)) for n in range(20)])
    moves = []
    for _ in range(40):
        measured = [rate * random.uniform(0.9, 1.1) for rate in rates]
        facts = [
            fact._replace(bytes_in=rate, bytes_out=2 * rate)
            for fact, rate in zip(facts, measured, strict=True)
        ]
        planned = plan(brokers, facts, LIMITS)
        moves.append(len(planned.reorderings) + len(planned.reassignments))
        facts = sorted(done(facts, planned))
    assert sum(moves[20:]) == 0


def test_leaders_are_exchanged_rather_than_replicas_where_that_is_enough():
    brokers = [BrokerFact(1), BrokerFact(2)]
    facts = [
        partition(n, *((1, 2) if n % 2 else (2, 1)), bytes_in=1.0, bytes_out=100.0 if n % 2 else 1.0, size=1)
        for n in range(12)
    ]
    planned = [each for _, each in steps(brokers, facts)]
    assert planned[0].reorderings
    assert not any(each.reassignments for each in planned)


def test_a_preferred_leader_that_is_back_leads_again():
    fact = partition(0, 1, 2)._replace(leader=2)
    brokers = [BrokerFact(1), BrokerFact(2)]
    assert plan(brokers, [fact], LIMITS).elections == [fact.where]
    assert plan(brokers, [fact], LIMITS._replace(auto_leader_rebalance=False)).is_empty
    lagging = fact._replace(isr=(2,))
    assert plan(brokers, [lagging], LIMITS).is_empty


def test_what_is_being_exchanged_counts_as_done_and_takes_room():
    brokers = [BrokerFact(node_id) for node_id in (1, 2)]
    facts = [partition(n, 1) for n in range(8)]
    assert len(plan(brokers, facts, LIMITS).reassignments) == 4
    moving = [
        fact._replace(replicas=(2,), is_moving=True) if fact.where.partition < 3 else fact for fact in facts
    ]
    assert len(plan(brokers, moving, LIMITS).reassignments) == 1
    # Unless they wait for a broker that is down.
    waiting = [fact._replace(replicas=(3,)) if fact.is_moving else fact for fact in moving]
    away = BrokerFact(3, is_alive=False)
    assert len(plan([*brokers, away], waiting, LIMITS).reassignments) == 2


def test_a_partition_without_leader_and_one_that_lags_are_left_alone():
    brokers = [BrokerFact(node_id) for node_id in (1, 2, 3)]
    facts = [partition(n, 1, 2)._replace(isr=(1,)) for n in range(5)]
    facts += [partition(n, 1, 2)._replace(isr=(2,), leader=-1) for n in range(5, 9)]
    assert plan(brokers, facts, LIMITS).is_empty


def test_partitions_get_the_replicas_that_were_wanted_when_brokers_come():
    facts = [partition(number, 1, topic="internal", replicas_wanted=3) for number in range(6)]
    facts += [partition(number, 1, topic="single") for number in range(6)]
    assert plan([BrokerFact(1)], facts, LIMITS).is_empty

    two = balanced([BrokerFact(1), BrokerFact(2)], facts)
    assert {len(fact.replicas) for fact in two if fact.where.topic == "internal"} == {2}

    brokers = [BrokerFact(1, "a"), BrokerFact(2, "a"), BrokerFact(3, "b"), BrokerFact(4, "a")]
    four = balanced(brokers, two)
    for fact in four:
        assert len(fact.replicas) == (3 if fact.where.topic == "internal" else 1)
        assert 3 in fact.replicas or fact.where.topic == "single", "replicas are in as many racks as can be"


def test_a_broker_that_leads_nothing_gets_one_leader_first() -> None:
    """The others follow with the next plan, when clients have found their way there."""
    brokers = [BrokerFact(node_id) for node_id in (1, 2, 3)]
    back = [partition(number, 3, 1, 2)._replace(leader=1) for number in range(3)]
    others = [partition(3 + number, 1 + number % 2, 2 - number % 2, 3) for number in range(6)]
    others[1] = others[1]._replace(leader=1)
    facts = [*back, *others]
    first = plan(brokers, facts, LIMITS)
    assert first.elections == [back[0].where, others[1].where]
    second = plan(brokers, done(facts, first), LIMITS)
    assert second.elections == [fact.where for fact in back[1:]]
