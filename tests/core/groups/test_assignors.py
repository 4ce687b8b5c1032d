"""The assignors: Kafka's results, balance, few moves, and small steps."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.ids import TopicId
from penstock.core.groups.assignors import ASSIGNORS, MemberToAssign
from penstock.core.groups.consumer_rebalancing import finish
from penstock.core.groups.partition_sets import assignment_of, common, count

# What Apache Kafka 4.3.1's assignors answered to random groups.
KAFKAS = json.loads((Path(__file__).parent / "kafka_assignments.json").read_text())


def topic(number):
    return TopicId(int(number).to_bytes(16, "big"))


def member(member_id, topics, had=None, instance_id=None):
    return MemberToAssign(
        member_id=member_id,
        instance_id=instance_id,
        subscribed=frozenset(map(topic, topics)),
        assigned=assignment_of((topic(each), partitions) for each, partitions in (had or {}).items()),
    )


def assign(assignor, members, counts):
    used = frozenset().union(*(each.subscribed for each in members)) if members else frozenset()
    known = {topic(each): partitions for each, partitions in counts.items() if topic(each) in used}
    assignments = finish(ASSIGNORS[assignor](members, known))
    return {each.member_id: assignments.get(each.member_id, {}) for each in members}


def kafkas(case):
    members = [member(each["id"], each["topics"], each["had"], each["instance"]) for each in case["members"]]
    theirs = {
        each["id"]: assignment_of((topic(number), partitions) for number, partitions in each["gets"].items())
        for each in case["members"]
    }
    return members, assign(case["assignor"], members, case["topics"]), theirs


def kept(members, assignments):
    return sum(count(common(each.assigned, assignments[each.member_id])) for each in members)


def loads(assignments):
    return sorted(map(count, assignments.values()))


def test_ranges_are_kafkas_partition_by_partition():
    for case in KAFKAS:
        if case["assignor"] == "range":
            _, ours, theirs = kafkas(case)
            assert ours == theirs


def test_uniform_shares_are_as_large_as_kafkas_and_move_as_little():
    """Which of two equal members gets one more depends on the order of a hash table there."""
    for case in KAFKAS:
        same_topics = len({tuple(each["topics"]) for each in case["members"]}) == 1
        if case["assignor"] == "uniform" and same_topics:
            members, ours, theirs = kafkas(case)
            assert loads(ours) == loads(theirs)
            assert kept(members, ours) == kept(members, theirs)


def test_uniform_shares_of_different_topics_are_balanced_about_as_well_as_kafkas():
    ours_in_all = theirs_in_all = 0
    for case in KAFKAS:
        if case["assignor"] == "uniform":
            _, ours, theirs = kafkas(case)
            ours_in_all += sum(load**2 for load in loads(ours))
            theirs_in_all += sum(load**2 for load in loads(theirs))
    assert ours_in_all <= theirs_in_all * 1.01


def test_equal_topics_are_cut_at_the_same_places():
    members = [member(member_id, [1, 2]) for member_id in "cab"]
    ranges = assign("range", members, {1: 7, 2: 7})
    assert ranges["a"] == {topic(1): {0, 1, 2}, topic(2): {0, 1, 2}}
    assert ranges["b"] == {topic(1): {3, 4}, topic(2): {3, 4}}
    assert ranges["c"] == {topic(1): {5, 6}, topic(2): {5, 6}}


def test_static_members_keep_their_place_in_line_whatever_their_member_id():
    members = [member("a", [1]), member("z", [1], instance_id="one")]
    assert assign("range", members, {1: 2})["z"] == {topic(1): {0}}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_without_members_the_assignment_is_empty(assignor):
    assert assign(assignor, [], {1: 3}) == {}


def test_a_member_that_comes_takes_its_share_and_no_more_moves():
    before = assign("uniform", [member("a", [1]), member("b", [1])], {1: 9})
    had = {each: {1: before[each][topic(1)]} for each in before}
    members = [member("a", [1], had["a"]), member("b", [1], had["b"]), member("c", [1])]
    after = assign("uniform", members, {1: 9})
    assert loads(after) == [3, 3, 3]
    assert kept(members, after) == 6


def test_partitions_that_two_members_claim_are_assigned_once():
    members = [member("a", [1], {1: [0, 1]}), member("b", [1], {1: [0, 1]})]
    after = assign("uniform", members, {1: 2})
    assert loads(after) == [1, 1]


@st.composite
def groups(draw):
    counts = draw(st.dictionaries(st.integers(1, 5), st.integers(1, 9), min_size=1, max_size=5))
    members = []
    for index in range(draw(st.integers(1, 7))):
        topics = draw(st.sets(st.sampled_from(sorted(counts)), max_size=5))
        had = draw(
            st.dictionaries(st.integers(1, 6), st.frozensets(st.integers(0, 10), max_size=4), max_size=2)
        )
        members.append(member(f"m{index}", topics, had))
    return members, counts


@settings(max_examples=60, deadline=None)
@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_subscribed_partition_is_assigned_to_exactly_one_subscriber(group, assignor):
    members, counts = group
    given_out = assign(assignor, members, counts)
    seen = []
    for each in members:
        for topic_id, partitions in given_out[each.member_id].items():
            assert topic_id in each.subscribed
            seen.extend((topic_id, partition) for partition in partitions)
    wanted = frozenset().union(*(each.subscribed for each in members))
    expected = {(topic(each), p) for each in counts if topic(each) in wanted for p in range(counts[each])}
    assert len(seen) == len(set(seen))
    assert set(seen) == expected


@settings(max_examples=60, deadline=None)
@given(groups())
def test_no_move_of_one_partition_could_make_uniform_shares_more_equal(group):
    members, counts = group
    shares = assign("uniform", members, counts)
    for giver in members:
        for taker in members:
            if any(topic_id in taker.subscribed for topic_id in shares[giver.member_id]):
                assert count(shares[giver.member_id]) - count(shares[taker.member_id]) < 2


@settings(max_examples=40, deadline=None)
@given(groups())
def test_uniform_shares_that_are_balanced_stay_as_they_are(group):
    members, counts = group
    shares = assign("uniform", members, counts)
    again = [
        MemberToAssign(member_id=each.member_id, subscribed=each.subscribed, assigned=shares[each.member_id])
        for each in members
    ]
    assert assign("uniform", again, counts) == shares


@pytest.mark.parametrize("same_topics", [True, False])
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_thousand_members_and_ten_thousand_partitions_are_assigned_in_many_small_steps(
    assignor, same_topics
):
    topics = range(1, 101)
    counts = {topic(each): 100 for each in topics}
    members = [
        member(f"m{index:04}", topics if same_topics else [each for each in topics if each % 4 != index % 4])
        for index in range(1_000)
    ]
    steps = ASSIGNORS[assignor](members, counts)
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            shares = end.value
            break
        taken += 1
    assert taken > 100
    assert sum(map(count, shares.values())) == 10_000
    if assignor == "uniform":
        assert set(map(count, shares.values())) == {10}
