"""Which topics are missed when they are gone."""

from penstock.sim.workload.known_topics import KnownTopics


def test_a_created_topic_that_is_not_listed_is_lost() -> None:
    topics = KnownTopics()
    topics.created("orders")
    topics.exists("payments")
    topics.listed(["orders"])
    assert topics.lost == {"payments": "the broker has only orders"}


def test_a_topic_that_can_be_created_twice_was_lost() -> None:
    topics = KnownTopics()
    topics.created("orders")
    topics.created("orders")
    topics.listed(["orders"])
    assert topics.lost == {"orders": "it could be created a second time"}


def test_a_topic_with_a_delete_request_never_counts_as_lost_again() -> None:
    topics = KnownTopics()
    topics.created("orders")
    topics.asked_to_delete("orders")
    topics.created("orders")
    topics.created("orders")
    topics.listed([])
    assert topics.lost == {}
