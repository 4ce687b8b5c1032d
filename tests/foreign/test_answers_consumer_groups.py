"""Groups of the consumer protocol (KIP-848): our answers are Apache Kafka's, step by step, to good and bad requests."""

import itertools
import time
import uuid
from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.foreign.asking import UNKNOWN_ID, create
from tests.foreign.wire_peer import Pair, Peer, expect_equal, plain

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

PATIENCE_S = 60
AWAY = -2
LEAVING = -1


@pytest.fixture
def group(pair: Pair) -> str:
    """A new group, whose coordinator is ready on both brokers."""
    name = f"consumers-{uuid.uuid4().hex[:8]}"
    for peer in (pair.kafka, pair.broker):
        deadline_s = time.monotonic() + PATIENCE_S
        while not _is_ready(peer, name):
            assert time.monotonic() < deadline_s, "no coordinator"
            time.sleep(0.05)  # Kafka makes its internal topic in the background, and then loads it
    return name


def _is_ready(peer: Peer, group: str) -> bool:
    if peer.ask(FindCoordinatorRequest(key=group, key_type=0), 3).error_code:
        return False
    described = peer.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
    return bool(described.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.fixture
def topic(pair: Pair) -> str:
    return create(pair, f"consumed-{uuid.uuid4().hex[:8]}", partitions=4)


def beat(group: str, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


def enter(group: str, member: str, topic: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    fields = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    } | fields
    return beat(group, member, 0, **fields)


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "no group": {"group_id": ""},
    "no member": {"member_id": ""},
    "an empty instance id": {"instance_id": ""},
    "an empty rack": {"rack_id": ""},
    "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "not a word on partitions": {"topic_partitions": None},
    "partitions": {"topic_partitions": [TopicPartitions(topic_id=UNKNOWN_ID, partitions=[1])]},
    "no subscription": {"subscribed_topic_names": None},
    "an unknown assignor": {"server_assignor": "fair"},
    "a broken expression": {"subscribed_topic_regex": "a**"},
    "an expression with a back reference": {"subscribed_topic_regex": r"(a)\1"},
    "away without an instance id": {"member_epoch": AWAY},
    "an epoch that nobody has": {"member_epoch": -3},
    "staying in a group that is not there": {"member_epoch": 1},
    "leaving a group that is not there": {"member_epoch": LEAVING},
}


@pytest.mark.parametrize("case", BAD_FIELDS)
def test_a_bad_heartbeat(pair: Pair, group: str, topic: str, case: str) -> None:
    request = enter(group, "one", topic)
    for field, value in BAD_FIELDS[case].items():
        setattr(request, field, value)
    assert pair.same(request, 1)["error_code"] != ErrorCode.NONE


def test_the_life_of_a_member(pair: Pair, group: str, topic: str) -> None:
    first = pair.same(enter(group, "one", topic), 1)
    assert first["member_epoch"] == 2
    assert pair.same(enter(group, "one", topic), 1) == first
    assert pair.same(beat(group, "one", 2), 1)["assignment"] is None
    for epoch in (1, 3):
        assert pair.same(beat(group, "one", epoch), 1)["error_code"] == ErrorCode.FENCED_MEMBER_EPOCH
    for epoch in (2, LEAVING):
        assert pair.same(beat(group, "two", epoch), 1)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    pair.same(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
    assert pair.same(beat(group, "one", LEAVING), 1)["member_epoch"] == LEAVING
    pair.same(ConsumerGroupDescribeRequest(group_ids=[group, "", f"not-{group}"]), 1)


def test_a_static_member_goes_away_and_comes_back(pair: Pair, group: str, topic: str) -> None:
    pair.same(enter(group, "one", topic, instance_id="i"), 1)
    for member in ("one", "two"):
        taken = pair.same(enter(group, member, topic, instance_id="i"), 1)
        assert taken["error_code"] == ErrorCode.UNRELEASED_INSTANCE_ID
    fenced = pair.same(beat(group, "two", 2, instance_id="i"), 1)
    assert fenced["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    unknown = pair.same(beat(group, "one", 2, instance_id="j"), 1)
    assert unknown["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    pair.same(beat(group, "one", AWAY, instance_id="i"), 1)
    pair.same(beat(group, "one", 2, instance_id="i"), 1)
    pair.same(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
    back = pair.same(enter(group, "three", topic, instance_id="i"), 1)
    assert back["member_epoch"] == 2
    pair.same(ConsumerGroupDescribeRequest(group_ids=[group]), 1)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_second_member_gets_its_share(pair: Pair, group: str, topic: str, assignor: str) -> None:
    """Kafka computes assignments beside the requests: both are asked until they are settled, and then compared."""
    settled = {}
    for peer in (pair.kafka, pair.broker):
        consumers = [_Consumer(peer, group, topic, member, assignor) for member in ("one", "two")]
        deadline_s = time.monotonic() + PATIENCE_S
        while not (described := _described(peer, group)) or described.group_state != "Stable":
            assert time.monotonic() < deadline_s, described
            for consumer in consumers:
                consumer.beat()
            time.sleep(0.05)
        shares = [
            sorted(partition for each in consumer.owned for partition in each.partitions)
            for consumer in consumers
        ]
        assert sorted(map(len, shares)) == [2, 2]
        assert sorted(itertools.chain(*shares)) == [0, 1, 2, 3]
        settled[peer] = plain(described, peer)
    ours, theirs = settled[pair.broker], settled[pair.kafka]
    if assignor == "range":
        expect_equal(ours, theirs)
    for field in ("group_epoch", "assignment_epoch", "assignor_name"):
        assert ours[field] == theirs[field]


def _described(peer: Peer, group: str) -> Any:
    return peer.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]


class _Consumer:
    """A member that gives up at once what it is no longer assigned."""

    def __init__(self, peer: Peer, group: str, topic: str, member: str, assignor: str) -> None:
        self._peer = peer
        self._group = group
        self._member = member
        self.owned: list[TopicPartitions] = []
        self._epoch = 0
        self._hear(peer.ask(enter(group, member, topic, server_assignor=assignor), 1))

    def beat(self) -> None:
        request = beat(self._group, self._member, self._epoch, topic_partitions=self.owned)
        self._hear(self._peer.ask(request, 1))

    def _hear(self, answer: Any) -> None:
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
