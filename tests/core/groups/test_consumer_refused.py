"""What a group of the consumer protocol decided and could not be written is decided again."""

import pytest

from penstock.core.groups.consumer_groups import ConsumerGroups
from penstock.core.groups.consumer_requests import ConsumerHeartbeat
from penstock.core.groups.requests import ClientInfo
from tests.core.groups.driven_consumers import Consumer, DrivenConsumers, KnownTopics
from tests.core.groups.driven_shard import GROUP


@pytest.fixture
def shard():
    return DrivenConsumers(KnownTopics(orders=2))


def beat_in_vain(shard, consumer):
    """A heartbeat whose records the log does not take."""
    request = ConsumerHeartbeat(
        group_id=GROUP,
        member_id=consumer.member_id,
        member_epoch=consumer.epoch,
        client=ClientInfo("app", "/127.0.0.1"),
    )
    decision = shard.shard.kind(ConsumerGroups).consumer_group_heartbeat(request, shard.now_ms)
    assert decision.records


def test_a_member_that_is_silent_for_too_long_goes_once_that_can_be_written(shard):
    shard.enter("one")
    shard.now_ms += 100_000
    refused = list(shard.shard.expire(shard.now_ms))
    assert any(decision.records for decision in refused)
    assert "one" in shard.group.members
    shard.pass_time(10_000)
    assert "one" not in shard.group.members


def test_a_topic_that_grew_is_seen_again(shard):
    consumer = Consumer(shard, "one", "orders")
    consumer.enter()
    consumer.beat()
    shard.topics.put("orders", 3)
    beat_in_vain(shard, consumer)
    consumer.beat()
    assert consumer.owned == shard.topics.partitions(orders=[0, 1, 2])


def test_a_topic_that_an_expression_matches_is_seen_again(shard):
    consumer = Consumer(shard, "one", subscribed_names=None, subscribed_regex="orders|new")
    consumer.enter()
    consumer.beat()
    shard.topics.put("new", 1)
    beat_in_vain(shard, consumer)
    consumer.beat()
    assert consumer.owned == shard.topics.partitions(orders=[0, 1], new=[0])


def test_a_version_of_the_topics_that_another_coordinator_counted_says_nothing(shard):
    """A restarted broker counts topic versions from 0, and may reach an earlier number with other topics."""
    consumer = Consumer(shard, "one", subscribed_names=None, subscribed_regex="orders|new")
    consumer.enter()
    consumer.beat()
    version = shard.topics.version
    shard.topics.put("new", 1)
    shard.topics.version = version
    shard.fail_over()
    consumer.beat()
    consumer.beat()
    assert consumer.owned == shard.topics.partitions(orders=[0, 1], new=[0])
