"""What classic consumers tell each other: both directions, other versions, and garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import PeerError
from penstock.base.ids import TopicPartition
from penstock.records.consumer_protocol import (
    AssignedTopic,
    Assignment,
    OwnedTopic,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)

TOPICS = st.lists(st.text(max_size=10), max_size=4)
NUMBERS = st.lists(st.integers(0, 2**31 - 1), max_size=4)


@given(
    topics=TOPICS,
    owned=st.lists(st.tuples(st.text(max_size=5), NUMBERS), max_size=3),
    rack=st.none() | st.text(),
)
def test_a_subscription_is_read_as_it_was_written(
    topics: list[str], owned: list[tuple[str, list[int]]], rack: str | None
) -> None:
    subscription = Subscription(
        topics=topics,
        user_data=b"mine",
        owned_partitions=[OwnedTopic(topic=topic, partitions=partitions) for topic, partitions in owned],
        generation_id=7,
        rack_id=rack,
    )
    assert read_subscription(write_subscription(subscription)) == subscription


def test_an_assignment_is_read_as_it_was_written() -> None:
    assignment = Assignment(assigned_partitions=[AssignedTopic(topic="orders", partitions=[0, 3])])
    assert read_assignment(write_assignment(assignment)) == (
        TopicPartition("orders", 0),
        TopicPartition("orders", 3),
    )


def test_a_version_from_the_future_is_read_as_the_newest_we_know() -> None:
    data = bytearray(write_subscription(Subscription(topics=["orders"], rack_id="b")))
    data[0:2] = (9).to_bytes(2, "big")
    assert read_subscription(bytes(data) + b"more").rack_id == "b"


def test_a_member_that_was_given_nothing_may_have_no_bytes_at_all() -> None:
    assert read_assignment(b"") == ()


@pytest.mark.parametrize(
    "data", [b"\x00", b"\xff\xff\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x09ab"]
)
def test_garbage_is_the_peers_fault(data: bytes) -> None:
    with pytest.raises(PeerError):
        read_subscription(data)
    with pytest.raises(PeerError):
        read_assignment(data)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except PeerError:
            continue
