"""Subscriptions by regular expression: which topics they mean, and when that is looked up again."""

from dataclasses import replace

import pytest

from penstock.core.coordinator_shard import Decision
from penstock.core.groups.consumer_records import member_description
from penstock.core.groups.partition_sets import NOTHING
from penstock.records.internal.group_shapes import ConsumerGroupRegularExpressionKey
from tests.core.groups.driven_consumers import Consumer, DrivenConsumers, KnownTopics, settle
from tests.core.groups.driven_shard import GROUP


@pytest.fixture
def shard():
    return DrivenConsumers(KnownTopics(orders=2, refunds=2, other=1))


def by_regex(shard, member_id, regex):
    return Consumer(shard, member_id, subscribed_regex=regex, subscribed_names=())


def test_a_member_gets_the_topics_whose_whole_name_matches(shard):
    shard.topics.put("orders-old", 2)
    consumer = by_regex(shard, "one", "orders|refunds")
    consumer.enter()
    assert consumer.owned == shard.topics.partitions(orders=[0, 1], refunds=[0, 1])


def test_names_and_an_expression_add_up(shard):
    consumer = Consumer(shard, "one", subscribed_regex="ref.*", subscribed_names=["other"])
    consumer.enter()
    assert consumer.owned == shard.topics.partitions(refunds=[0, 1], other=[0])


def test_an_expression_that_matches_nothing_yet_matches_a_topic_that_comes(shard):
    consumer = by_regex(shard, "one", "new-.*")
    assert consumer.enter().assignment == NOTHING
    shard.topics.put("new-one", 1)
    assert consumer.beat().assignment == shard.topics.partitions(**{"new-one": [0]})


def test_a_topic_that_goes_no_longer_matches(shard):
    consumer = by_regex(shard, "one", "orders|refunds")
    consumer.enter()
    shard.topics.delete("refunds")
    settle(consumer)
    assert consumer.owned == shard.topics.partitions(orders=[0, 1])


def test_another_expression_means_other_topics(shard):
    consumer = by_regex(shard, "one", "orders")
    consumer.enter()
    consumer.beat(subscribed_regex="refunds")
    settle(consumer)
    assert consumer.owned == shard.topics.partitions(refunds=[0, 1])
    assert set(shard.group.regexes) == {"refunds"}, "no member uses the other one any more"


def test_an_empty_expression_ends_the_subscription(shard):
    consumer = by_regex(shard, "one", "orders")
    consumer.enter()
    consumer.beat(subscribed_regex="")
    settle(consumer)
    assert consumer.owned == NOTHING
    assert shard.group.regexes == {}


def test_what_an_expression_meant_outlives_a_fail_over_and_is_compared_then(shard):
    consumer = by_regex(shard, "one", "orders|new")
    consumer.enter()
    shard.topics.put("new", 1)
    shard.fail_over()
    assert shard.group.topics_of(shard.group.members["one"]) == {"orders"}
    consumer.beat()
    assert consumer.owned == shard.topics.partitions(orders=[0, 1], new=[0])


def test_offsets_of_topics_that_match_are_in_use(shard):
    by_regex(shard, "one", "ord.*").enter()
    assert shard.group.is_subscribed_to("orders")
    assert not shard.group.is_subscribed_to("refunds")


def test_a_stored_expression_that_this_coordinator_refuses_matches_no_topic(shard):
    consumer = Consumer(shard, "one", "orders", subscribed_regex="refunds")
    consumer.enter()
    too_large = "((a{999}){999}){999}"
    described = replace(shard.group.members["one"], subscribed_regex=too_large)
    shard.carry_out(Decision(None, (member_description(GROUP, described),)))
    shard.topics.put("fresh", 1)
    settle(consumer)
    assert consumer.owned == shard.topics.partitions(orders=[0, 1])
    assert shard.group.regexes[too_large].topics == frozenset()


def test_many_topics_are_matched_in_slices_and_assigned_with_a_later_heartbeat():
    topics = KnownTopics(**{f"t{number}": 1 for number in range(300)})
    shard = DrivenConsumers(topics, matched_at_once_max=100)
    shard.holds_work = True
    consumer = by_regex(shard, "one", "t1.?")
    assert consumer.enter().assignment == NOTHING
    consumer.beat()
    assert len(shard.work) == 1, "the same question is not asked twice"
    while shard.work:
        shard.step()
    assert shard.steps > 10
    consumer.beat()
    assert len(consumer.owned) == 11


def test_a_member_that_leaves_while_topics_are_matched_leaves_nothing_behind():
    shard = DrivenConsumers(KnownTopics(a=1, b=1), matched_at_once_max=1)
    shard.holds_work = True
    consumer = by_regex(shard, "one", ".")
    consumer.enter()
    consumer.leave()
    while shard.work:
        shard.step()
    kinds = [key for key, value in shard.records if isinstance(key, ConsumerGroupRegularExpressionKey)]
    assert kinds == []


def test_topics_that_do_not_matter_are_looked_at_once_however_often_members_are_heard_of():
    topics = KnownTopics(**{f"t{number}": 1 for number in range(300)})
    shard = DrivenConsumers(topics, matched_at_once_max=100)
    consumer = by_regex(shard, "one", "t1.?")
    consumer.enter()
    consumer.beat()
    assert len(consumer.owned) == 11
    topics.put("other", 1)
    consumer.beat()
    steps = shard.steps
    for _ in range(5):
        consumer.beat()
    assert shard.steps == steps


def test_an_expression_that_takes_long_for_few_topics_is_matched_in_slices():
    shard = DrivenConsumers(KnownTopics(**{"a" * 200: 1}))
    shard.holds_work = True
    consumer = by_regex(shard, "one", "(|a)" * 1_000)
    assert consumer.enter().assignment == NOTHING
    while shard.work:
        shard.step()
    assert shard.steps > 20
    consumer.beat()
    assert len(consumer.owned) == 1
