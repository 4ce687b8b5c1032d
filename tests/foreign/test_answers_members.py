"""Groups of two members: in the middle of a rebalance each gets the answers that Apache Kafka gives.

Joins and syncs that wait for the other member are asked on connections of their own, in threads.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from peers.brokers import Broker
from penstock.base.errors import ErrorCode
from penstock.schema.words import Message
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.consumer_group_heartbeat import TopicPartitions
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.offset_commit import OffsetCommitRequest
from penstock.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.foreign.asking import create
from tests.foreign.wire_peer import Pair, Peer, expect_equal, plain
from tests.group_messages import beating, committing, fetching, joining, syncing

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

PATIENCE_S = 60
PAUSE_S = 0.05


@pytest.fixture
def topic(pair: Pair) -> str:
    return create(pair, f"grouped-{uuid.uuid4().hex[:8]}", partitions=2)


def wait_until(happened: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s, what
        time.sleep(PAUSE_S)  # the brokers can only be asked again


@pytest.fixture
def group(pair: Pair) -> str:
    """A new group, whose coordinator both brokers have loaded."""
    name = f"members-{uuid.uuid4().hex[:8]}"
    search = FindCoordinatorRequest(key=name, key_type=0)  # by which the internal topic is made
    unknown_member = HeartbeatRequest(group_id=name, generation_id=1, member_id="nobody")
    for peer in (pair.kafka, pair.broker):
        wait_until(
            lambda peer=peer: (
                peer.ask(search, 3).error_code == ErrorCode.NONE
                and peer.ask(unknown_member, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            ),
            "no coordinator",
        )
    return name


class TwoMembers:
    """The classic members "one" and "two" on both brokers, each with a connection and an id of its own there."""

    def __init__(self, group: str, pairs: dict[str, Pair], threads: ThreadPoolExecutor) -> None:
        self.group = group
        self._pairs = pairs
        self._threads = threads
        self._ids: dict[tuple[Peer, str], str] = {}

    def peers(self, member: str) -> tuple[Peer, Peer]:
        pair = self._pairs[member]
        return pair.kafka, pair.broker

    def enter(self, member: str) -> None:
        """Each broker gives the member an id, with which it is to come again."""
        for peer in self.peers(member):
            answer = peer.ask(joining(self.group), 9)
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
            self._ids[peer, member] = answer.member_id

    def id(self, peer: Peer, member: str) -> str:
        """The id of a member at the broker of this connection, which may be another member's connection."""
        position = next(self.peers(name).index(peer) for name in self._pairs if peer in self.peers(name))
        return self._ids[self.peers(member)[position], member]

    def ask(self, member: str, request: Callable[[Peer], Message], version: int) -> Future[Any]:
        """The comparison of two answers that may take their time."""
        asked = [
            self._threads.submit(peer.ask, request(peer), version) for peer in self.peers(member)
        ]  # at both brokers at once

        def compare() -> Any:
            expected, got = (
                self._named(plain(answer.result(PATIENCE_S), peer), peer)
                for answer, peer in zip(asked, self.peers(member), strict=True)
            )
            expect_equal(got, expected)
            return got

        return self._threads.submit(compare)

    def same(self, member: str, request: Callable[[Peer], Message], version: int) -> Any:
        return self.ask(member, request, version).result(PATIENCE_S)

    def join(self, member: str) -> Future[Any]:
        return self.ask(member, lambda peer: joining(self.group, self.id(peer, member)), 9)

    def sync(self, member: str, generation: int, *assigned: str) -> Future[Any]:
        return self.ask(
            member,
            lambda peer: syncing(
                self.group,
                self.id(peer, member),
                generation,
                assignments=[
                    SyncGroupRequestAssignment(member_id=self.id(peer, each), assignment=each.encode())
                    for each in assigned
                ],
            ),
            5,
        )

    def beating(self, member: str, generation: int) -> Callable[[Peer], HeartbeatRequest]:
        return lambda peer: HeartbeatRequest(
            group_id=self.group, generation_id=generation, member_id=self.id(peer, member)
        )

    def committing(self, member: str, topic: str, generation: int) -> Callable[[Peer], OffsetCommitRequest]:
        return lambda peer: committing(
            self.group,
            topic,
            5,
            member_id=self.id(peer, member),
            generation_id_or_member_epoch=generation,
        )

    def wait_for_rebalance(self, member: str, generation: int) -> None:
        for peer in self.peers(member):
            beat = self.beating(member, generation)(peer)
            wait_until(lambda peer=peer, beat=beat: peer.ask(beat, 4).error_code != 0, "no rebalance")

    def _named(self, value: Any, peer: Peer) -> Any:
        if isinstance(value, dict):
            return {key: self._named(each, peer) for key, each in value.items()}
        if isinstance(value, list):
            return sorted((self._named(each, peer) for each in value), key=repr)
        names = {self.id(peer, member): member for _, member in self._ids}
        return names.get(value, value) if isinstance(value, str) else value


@pytest.fixture
def two(kafka: Broker, broker: Broker, pair: Pair, group: str) -> Iterator[TwoMembers]:
    with (
        Pair.connected(kafka, broker) as other,  # type: ignore[arg-type]
        ThreadPoolExecutor(8) as threads,
    ):
        yield TwoMembers(group, {"one": pair, "two": other}, threads)


def test_a_second_classic_member_joins_and_leaves(two: TwoMembers, topic: str) -> None:
    two.enter("one")
    assert two.join("one").result(PATIENCE_S)["leader"] == "one"
    two.sync("one", 1, "one").result(PATIENCE_S)

    two.enter("two")
    joined = two.join("two")
    two.wait_for_rebalance("one", 1)
    two.same("one", two.beating("one", 1), 4)
    two.same("one", two.committing("one", topic, 1), 9)
    two.same("one", lambda _: DescribeGroupsRequest(groups=[two.group]), 6)
    two.sync("one", 1).result(PATIENCE_S)
    rejoined = two.join("one")
    assert len(rejoined.result(PATIENCE_S)["members"]) == 2
    assert joined.result(PATIENCE_S)["leader"] == "one"

    synced = two.sync("two", 2)
    two.same("one", two.beating("one", 2), 4)
    two.same("one", two.committing("one", topic, 2), 9)
    two.same("one", two.committing("one", topic, 1), 9)
    two.same("one", lambda _: DescribeGroupsRequest(groups=[two.group]), 6)
    assert two.sync("one", 2, "one", "two").result(PATIENCE_S)["assignment"] == b"one"
    assert synced.result(PATIENCE_S)["assignment"] == b"two"
    two.same("one", lambda _: DescribeGroupsRequest(groups=[two.group]), 6)

    two.same(
        "two",
        lambda peer: LeaveGroupRequest(
            group_id=two.group, members=[MemberIdentity(member_id=two.id(peer, "two"))]
        ),
        5,
    )
    two.same("one", two.beating("one", 2), 4)
    two.same("two", two.beating("two", 2), 4)


def test_commits_to_partitions_that_do_not_exist(pair: Pair, group: str, topic: str) -> None:
    pair.same(committing(group, topic, 1, 2, 3), 9)
    pair.same(fetching(group, topic, 0, 1, 2), 9)


class Consumers:
    """Members of a group of the consumer protocol, who give up and take what each broker tells them to."""

    def __init__(self, pair: Pair, group: str, topic: str) -> None:
        self._group, self._topic = group, topic
        self._peers = (pair.kafka, pair.broker)
        self._epochs: dict[tuple[Peer, str], int] = {}
        self._owned: dict[tuple[Peer, str], list[int]] = {}

    def enter(self, name: str) -> None:
        for peer in self._peers:
            self._hear(peer, name, beating(self._group, name, subscribed_topic_names=[self._topic]))

    def settle(self, **counts: int) -> None:
        """Heartbeats to each broker until the members have so many partitions."""
        for peer in self._peers:
            wait_until(lambda peer=peer: self._are_settled(peer, counts), "never settled")

    def epochs(self, name: str) -> set[int]:
        return {self._epochs[peer, name] for peer in self._peers}

    def owned(self, name: str) -> list[int]:
        (owned,) = {tuple(self._owned[peer, name]) for peer in self._peers}
        return list(owned)

    def _are_settled(self, peer: Peer, counts: dict[str, int]) -> bool:
        for name in counts:
            owned = self._owned[peer, name]
            topics = [TopicPartitions(topic_id=peer.topic_id(self._topic), partitions=owned)] if owned else []
            epoch = self._epochs[peer, name]
            self._hear(peer, name, beating(self._group, name, epoch, topic_partitions=topics))
        return all(len(self._owned[peer, name]) == count for name, count in counts.items())

    def _hear(self, peer: Peer, name: str, request: Message) -> None:
        answer = peer.ask(request, 1)
        assert answer.error_code == 0, answer
        self._epochs[peer, name] = answer.member_epoch
        assignment = answer.assignment
        if assignment is not None:
            self._owned[peer, name] = [p for topic in assignment.topic_partitions for p in topic.partitions]
        self._owned.setdefault((peer, name), [])


@pytest.mark.parametrize("version", [9, 10])
def test_commits_of_an_epoch_that_is_over(pair: Pair, group: str, topic: str, version: int) -> None:
    consumers = Consumers(pair, group, topic)
    consumers.enter("one")
    consumers.settle(one=2)
    (epoch,) = consumers.epochs("one")
    consumers.enter("two")
    consumers.settle(one=1, two=1)
    (kept,), (given,) = consumers.owned("one"), consumers.owned("two")

    def commit(member: str, epoch: int, *partitions: int) -> Any:
        def request(peer: Peer) -> OffsetCommitRequest:
            made = committing(
                group, topic, *partitions, member_id=member, generation_id_or_member_epoch=epoch
            )
            made.topics[0].topic_id = peer.topic_id(topic)
            for each, partition in zip(made.topics[0].partitions, partitions, strict=True):
                each.partition_index = partition
            return made

        answer = pair.same(request, version)
        return {each["error_code"] for each in answer["topics"][0]["partitions"]}

    assert commit("one", epoch, kept) == {ErrorCode.NONE}
    assert commit("one", epoch, given) == {ErrorCode.STALE_MEMBER_EPOCH}
    assert commit("one", epoch, kept, given) == {ErrorCode.STALE_MEMBER_EPOCH}
    commit("one", epoch - 1, kept)
    commit("one", epoch, kept, 7)
    commit("two", epoch, given)
    for member in ("one", "two"):
        for each in (epoch, epoch + 1, epoch + 2):
            pair.same(fetching(group, topic, 0, 1, member_id=member, member_epoch=each), 9)
    pair.same(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
