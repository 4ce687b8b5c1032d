"""Where the replicas of new partitions go, and which choices of others are refused."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ErrorCode, Refusal
from penstock.controller.rules.placement import assign_replicas, check_assignment


def test_one_broker_gets_everything():
    assert assign_replicas(brokers=[4], partition_count=3, replication_factor=1) == [(4,)] * 3


@given(broker_count=st.integers(1, 7), partition_count=st.integers(1, 60), data=st.data())
def test_replicas_are_distinct_and_leaders_and_replicas_spread_evenly(broker_count, partition_count, data):
    factor = data.draw(st.integers(1, broker_count))
    brokers = list(range(10, 10 + broker_count))
    replicas = assign_replicas(brokers=brokers, partition_count=partition_count, replication_factor=factor)
    assert not isinstance(replicas, Refusal)
    assert len(replicas) == partition_count
    assert all(len(set(chosen)) == factor and set(chosen) <= set(brokers) for chosen in replicas)
    leaders = Counter(dict.fromkeys(brokers, 0))
    leaders.update(chosen[0] for chosen in replicas)
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_the_followers_of_one_leader_are_all_the_others_in_turn():
    replicas = assign_replicas(brokers=[1, 2, 3, 4], partition_count=12, replication_factor=2)
    assert {chosen[1] for chosen in replicas if chosen[0] == 1} == {2, 3, 4}


def test_partitions_added_later_continue_the_round():
    everything = assign_replicas(brokers=[1, 2, 3], partition_count=7, replication_factor=2)
    later = assign_replicas(brokers=[1, 2, 3], partition_count=3, replication_factor=2, start=4)
    assert everything[4:] == later


@pytest.mark.parametrize(
    ("partition_count", "replication_factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_counts_that_cannot_be_had_are_refused_as_kafka_does(partition_count, replication_factor, code):
    refusal = assign_replicas(
        brokers=[1], partition_count=partition_count, replication_factor=replication_factor
    )
    assert isinstance(refusal, Refusal)
    assert refusal.code is code


def test_an_explicit_assignment_is_taken_in_the_order_of_the_partitions():
    assert check_assignment({1: [2, 1], 0: [1, 2]}, brokers=[1, 2]) == [(1, 2), (2, 1)]
    assert check_assignment({3: [1]}, brokers=[1], first=3, replication_factor=1) == [(1,)]


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        ({1: [1]}, "numbered from 0"),
        ({0: [1], 2: [1]}, "without a gap"),
        ({-1: [1]}, "numbered from 0"),
        ({0: []}, "partition 0 has no replica"),
        ({0: [1, 1]}, "on broker 1 more than once"),
        ({0: [3]}, "on broker 3, which is not there"),
        ({0: [1], 1: [1, 2]}, "partition 1 has 2 replica(s) where the others have 1"),
    ],
)
def test_an_assignment_that_cannot_be_had_is_refused_with_the_reason(assignments, words):
    refusal = check_assignment(assignments, brokers=[1, 2])
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert words in refusal.message


def test_partitions_added_by_hand_need_as_many_replicas_as_the_others():
    refusal = check_assignment({3: [1]}, brokers=[1, 2], first=3, replication_factor=2)
    assert isinstance(refusal, Refusal)


@given(partition_count=st.integers(1, 60), factor=st.integers(1, 4))
def test_replicas_are_in_different_racks_as_far_as_there_are_racks(partition_count, factor):
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    replicas = assign_replicas(
        brokers=sorted(racks), partition_count=partition_count, replication_factor=factor, racks=racks
    )
    assert not isinstance(replicas, Refusal)
    for chosen in replicas:
        assert len(set(chosen)) == factor
        assert len({racks[broker] for broker in chosen}) == min(factor, 3)
    leaders = Counter(dict.fromkeys(racks, 0))
    leaders.update(chosen[0] for chosen in replicas)
    assert max(leaders.values()) - min(leaders.values()) <= 1
