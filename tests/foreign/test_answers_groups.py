"""Groups and committed offsets: our answers are Apache Kafka's, field by field, to good requests and to bad ones."""

import itertools
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.schema.words import Message
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.delete_groups import DeleteGroupsRequest
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.list_groups import ListGroupsRequest
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
)
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.foreign.asking import UNKNOWN_ID, create
from tests.foreign.wire_peer import Pair, Peer, expect_equal, plain
from tests.group_messages import beating, committing, fetching, joining, syncing

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]

PATIENCE_S = 60
NEWEST = {8: 10, 9: 10, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 42: 2, 47: 0, 68: 1, 69: 1}

_numbers = itertools.count()


@pytest.fixture
def group(pair: Pair) -> str:
    """A new group, whose coordinator both brokers have found."""
    name = f"group-{next(_numbers)}-{uuid.uuid4().hex[:8]}"
    for peer in (pair.kafka, pair.broker):
        wait_for_coordinator(peer, name)
    return name


@pytest.fixture
def topic(pair: Pair) -> str:
    return create(pair, f"grouped-{uuid.uuid4().hex[:8]}", partitions=2)


def wait_for_coordinator(peer: Peer, group: str) -> None:
    """Kafka makes its internal topic in the background, and then loads it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while peer.ask(FindCoordinatorRequest(key=group, key_type=0), 3).error_code or fetch_code(peer, group):
        assert time.monotonic() < deadline_s, "no coordinator"
        time.sleep(0.05)


def fetch_code(peer: Peer, group: str) -> int:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    return int(peer.ask(request, 8).groups[0].error_code)


class Members:
    """The ids that each broker gave to a member, and names for them that both have in common."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._ids: dict[tuple[Peer, str], str] = {}

    def learn(self, name: str, answers: dict[Peer, Any]) -> None:
        for peer, answer in answers.items():
            self._ids[peer, name] = answer.member_id

    def id(self, peer: Peer, name: str) -> str:
        return self._ids.get((peer, name), name)

    def ask(self, request: Callable[[Peer], Message], version: int) -> dict[Peer, Any]:
        return {peer: peer.ask(request(peer), version) for peer in (self.pair.kafka, self.pair.broker)}

    def same(self, request: Callable[[Peer], Message], version: int) -> Any:
        answers = self.ask(request, version)
        expected, got = (self.named(plain(answer, peer), peer) for peer, answer in answers.items())
        expect_equal(got, expected)
        return got

    def named(self, value: Any, peer: Peer) -> Any:
        if isinstance(value, dict):
            return {key: self.named(one, peer) for key, one in value.items()}
        if isinstance(value, list):
            return [self.named(one, peer) for one in value]
        names = {id_: name for (whose, name), id_ in self._ids.items() if whose is peer}
        return names.get(value, value) if isinstance(value, str) else value


@pytest.fixture
def members(pair: Pair) -> Members:
    return Members(pair)


def join(members: Members, group: str, name: str = "one", **options: Any) -> None:
    """A first and only member, whose group is then to be synced."""
    first = members.ask(lambda _: joining(group, **options), 9)
    assert {answer.error_code for answer in first.values()} == {ErrorCode.MEMBER_ID_REQUIRED}
    members.learn(name, first)
    members.same(lambda peer: joining(group, members.id(peer, name), **options), 9)


def stable(members: Members, group: str) -> None:
    """A stable group with one member."""
    join(members, group)

    def sync(peer: Peer) -> SyncGroupRequest:
        member_id = members.id(peer, "one")
        return syncing(
            group, member_id, assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
        )

    assert members.same(sync, 5)["assignment"] == b"all"


# Offsets.


@pytest.mark.parametrize("version", range(2, 10))
def test_commits_and_fetches_by_name(pair: Pair, group: str, topic: str, version: int) -> None:
    pair.same(committing(group, topic, 5, 7, metadata="note"), version)
    pair.same(fetching(group, topic, 0, 1, 2), 8)
    pair.same(fetching(group, None), 8)


@pytest.mark.parametrize("version", range(1, 8))
def test_fetches_of_one_group(pair: Pair, group: str, topic: str, version: int) -> None:
    pair.same(committing(group, topic, 5), 9)
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])]
    pair.same(OffsetFetchRequest(group_id=group, topics=topics), version)
    if version >= 2:
        pair.same(OffsetFetchRequest(group_id=group, topics=None), version)


def test_commits_and_fetches_by_id(pair: Pair, group: str, topic: str) -> None:
    def commit(peer: Peer, topic_id: bytes | None = None) -> OffsetCommitRequest:
        request = committing(group, "", 3, 4)
        request.topics[0].topic_id = topic_id or peer.topic_id(topic)
        return request

    def fetch(peer: Peer, topic_id: bytes | None = None) -> OffsetFetchRequest:
        topics = [
            OffsetFetchRequestTopics(topic_id=topic_id or peer.topic_id(topic), partition_indexes=[0, 5])
        ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])

    pair.same(commit, 10)
    pair.same(lambda peer: commit(peer, UNKNOWN_ID), 10)
    pair.same(fetch, 10)
    pair.same(lambda peer: fetch(peer, UNKNOWN_ID), 10)
    pair.same(fetching(group, None), 10)


def test_commits_for_topics_that_do_not_exist(pair: Pair, group: str) -> None:
    pair.same(committing(group, f"absent-{uuid.uuid4().hex}", 3), 9)


@pytest.mark.parametrize("version", [2, 8, 9])
@pytest.mark.parametrize(
    "options",
    [
        {"member_id": "nobody", "generation_id_or_member_epoch": 1},
        {"member_id": "", "generation_id_or_member_epoch": 1},
        {"member_id": "nobody", "generation_id_or_member_epoch": -1},
        {"member_id": "nobody", "generation_id_or_member_epoch": 0},
    ],
)
def test_offset_commits_of_unknown_members(
    pair: Pair, group: str, topic: str, options: dict[str, Any], version: int
) -> None:
    pair.same(committing(group, topic, 1, **options), version)


def test_commits_with_metadata_that_is_too_large(pair: Pair, group: str, topic: str) -> None:
    pair.same(committing(group, topic, 1, metadata="x" * 5000), 9)
    pair.same(committing(group, topic, 1, metadata=None), 9)
    pair.same(fetching(group, topic, 0), 9)


def test_commits_to_a_stable_group(members: Members, group: str, topic: str) -> None:
    stable(members, group)
    for member, generation in (("one", 1), ("one", 0), ("one", 2), ("nobody", 1), ("", -1)):
        members.same(
            lambda peer, m=member, g=generation: committing(
                group, topic, 1, member_id=members.id(peer, m), generation_id_or_member_epoch=g
            ),
            9,
        )


def test_fetches_of_groups_that_do_not_exist(pair: Pair, group: str, topic: str) -> None:
    pair.same(fetching(f"absent-{group}", topic, 0), 9)
    pair.same(fetching(f"absent-{group}", None), 9)
    pair.same(fetching(f"absent-{group}", topic, 0, member_id="nobody", member_epoch=3), 9)


def test_deleting_offsets(members: Members, pair: Pair, group: str, topic: str) -> None:
    def deleting(group: str, *topics: str) -> OffsetDeleteRequest:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1)]
        return OffsetDeleteRequest(
            group_id=group,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in topics],
        )

    pair.same(deleting(f"absent-{group}", topic), 0)
    pair.same(committing(group, topic, 1), 9)
    pair.same(deleting(group, topic, "absent"), 0)
    pair.same(fetching(group, topic, 0), 9)
    stable(members, group)
    pair.same(deleting(group, topic), 0)


# Classic members.


@pytest.mark.parametrize("version", range(10))
def test_a_member_without_an_id(members: Members, group: str, version: int) -> None:
    answers = members.ask(lambda _: joining(group), version)
    members.learn("one", answers)
    expected, got = (members.named(plain(answer, peer), peer) for peer, answer in answers.items())
    expect_equal(got, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"member_id": "nobody"},
        {"session_timeout_ms": 10},
        {"session_timeout_ms": 100_000_000},
        {"protocols": ()},
        {"protocol_type": ""},
        {"member_id": "nobody", "instance_id": "static"},
    ],
)
def test_joins_that_are_refused(pair: Pair, group: str, options: dict[str, Any]) -> None:
    pair.same(joining(group, **options), 9)
    pair.same(joining("", **options), 9)


def test_a_group_with_one_member(members: Members, group: str) -> None:
    stable(members, group)
    for generation, member in ((1, "one"), (0, "one"), (2, "one"), (1, "nobody"), (1, "")):
        members.same(
            lambda peer, g=generation, m=member: HeartbeatRequest(
                group_id=group, generation_id=g, member_id=members.id(peer, m)
            ),
            4,
        )
    members.same(lambda peer: joining(group, members.id(peer, "one"), protocols=("other",)), 9)


def test_joins_that_do_not_fit_the_group(members: Members, group: str) -> None:
    stable(members, group)
    members.same(lambda _: joining(group, protocol_type="connect"), 9)
    members.same(lambda _: joining(group, protocols=("other",)), 9)


@pytest.mark.parametrize("version", range(6))
def test_syncs_that_are_refused(members: Members, group: str, version: int) -> None:
    stable(members, group)
    for member, generation, options in (
        ("nobody", 1, {}),
        ("one", 5, {}),
        ("one", 1, {"protocol_name": "other"}),
        ("one", 1, {"protocol_type": "other"}),
        ("one", 1, {"protocol_type": None}),
        ("one", 1, {}),
    ):
        members.same(
            lambda peer, m=member, g=generation, o=options: syncing(group, members.id(peer, m), g, **o),
            version,
        )
    members.same(lambda _: syncing(f"absent-{group}", "nobody"), version)


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_of_an_unknown_member(pair: Pair, group: str, version: int) -> None:
    pair.same(HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody"), version)
    pair.same(HeartbeatRequest(group_id="", generation_id=1, member_id="nobody"), version)


@pytest.mark.parametrize("version", range(6))
def test_leaving(members: Members, group: str, version: int) -> None:
    def leaving(member: str) -> Callable[[Peer], LeaveGroupRequest]:
        def request(peer: Peer) -> LeaveGroupRequest:
            member_id = members.id(peer, member)
            if version < 3:
                return LeaveGroupRequest(group_id=group, member_id=member_id)
            two = [MemberIdentity(member_id=member_id), MemberIdentity(member_id="x", group_instance_id="y")]
            return LeaveGroupRequest(group_id=group, members=two)

        return request

    members.same(leaving("nobody"), version)
    stable(members, group)
    members.same(leaving("nobody"), version)
    members.same(leaving("one"), version)
    members.same(leaving("one"), version)


def test_static_members(members: Members, group: str) -> None:
    answers = members.ask(lambda _: joining(group, instance_id="static"), 9)
    members.learn("one", answers)
    members.same(
        lambda peer: syncing(group, members.id(peer, "one"), group_instance_id="static"),
        5,
    )
    again = members.ask(lambda _: joining(group, instance_id="static"), 9)
    members.learn("two", again)
    expected, got = (members.named(plain(answer, peer), peer) for peer, answer in again.items())
    expect_equal(got, expected)
    for instance, member in (("static", "one"), ("static", "two"), ("other", "two"), (None, "two")):
        members.same(
            lambda peer, i=instance, m=member: HeartbeatRequest(
                group_id=group, generation_id=1, member_id=members.id(peer, m), group_instance_id=i
            ),
            4,
        )


# Groups.


@pytest.mark.parametrize("version", range(7))
def test_describing(members: Members, pair: Pair, group: str, version: int) -> None:
    operations = {"include_authorized_operations": True} if version >= 3 else {}
    pair.same(DescribeGroupsRequest(groups=[f"absent-{group}", ""], **operations), version)
    stable(members, group)
    members.same(lambda _: DescribeGroupsRequest(groups=[group], **operations), version)


@pytest.mark.parametrize(
    ("states", "types"),
    [
        ([], []),
        (["Stable"], []),
        (["stable", "Empty"], []),
        (["Odd"], []),
        ([], ["Classic"]),
        ([], ["consumer"]),
    ],
)
def test_listing(members: Members, group: str, states: list[str], types: list[str]) -> None:
    stable(members, group)
    answers = members.ask(lambda _: ListGroupsRequest(states_filter=states, types_filter=types), 5)
    expected, got = (
        [plain(one, peer) for one in answer.groups if one.group_id == group]
        for peer, answer in answers.items()
    )
    expect_equal(got, expected)


def test_listing_in_older_versions(members: Members, group: str) -> None:
    stable(members, group)
    for version in range(5):
        answers = members.ask(lambda _: ListGroupsRequest(), version)
        expected, got = (
            [plain(one, peer) for one in answer.groups if one.group_id == group]
            for peer, answer in answers.items()
        )
        expect_equal(got, expected)


@pytest.mark.parametrize("version", range(3))
def test_deleting(members: Members, pair: Pair, group: str, topic: str, version: int) -> None:
    pair.same(DeleteGroupsRequest(groups_names=[f"absent-{group}"]), version)
    pair.same(committing(group, topic, 1), 9)
    stable(members, group)
    pair.same(DeleteGroupsRequest(groups_names=[group]), version)
    members.same(
        lambda peer: LeaveGroupRequest(
            group_id=group, members=[MemberIdentity(member_id=members.id(peer, "one"))]
        ),
        5,
    )
    pair.same(DeleteGroupsRequest(groups_names=[group]), version)
    pair.same(fetching(group, topic, 0), 9)


# The consumer protocol.


@pytest.mark.parametrize(
    "options",
    [
        {"member_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"server_assignor": "odd"},
        {"subscribed_topic_names": None},
        {"subscribed_topic_regex": "(a"},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"member_epoch": 5},
        {"member_epoch": -1},
        {"member_epoch": -2},
        {"member_epoch": -3},
    ],
)
def test_heartbeats_that_are_refused(pair: Pair, group: str, options: dict[str, Any]) -> None:
    pair.same(beating(group, **options), 1)
    pair.same(beating("", **options), 1)


def test_a_consumer_group_with_one_member(pair: Pair, group: str, topic: str) -> None:
    first = pair.same(beating(group, subscribed_topic_names=[topic]), 1)
    epoch = first["member_epoch"]
    deadline_s = time.monotonic() + PATIENCE_S
    described = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True)
    while pair.kafka.ask(described, 1).groups[0].group_state != "Stable":
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    pair.same(described, 1)
    pair.same(DescribeGroupsRequest(groups=[group]), 6)
    for member_epoch in (epoch + 5, epoch - 1, epoch):
        pair.same(beating(group, member_epoch=member_epoch), 1)
    pair.same(beating(group, "other", epoch), 1)
    pair.same(joining(group, protocols=("range",), protocol_type="connect"), 9)
    pair.same(committing(group, topic, 4, member_id="me", generation_id_or_member_epoch=epoch), 9)
    pair.same(committing(group, topic, 4, member_id="me", generation_id_or_member_epoch=epoch + 4), 9)
    pair.same(committing(group, topic, 4, member_id="you", generation_id_or_member_epoch=epoch), 9)
    pair.same(fetching(group, topic, 0, member_id="me", member_epoch=epoch), 9)
    pair.same(fetching(group, topic, 0, member_id="me", member_epoch=epoch + 4), 9)
    pair.same(fetching(group, topic, 0, member_id="you", member_epoch=epoch), 9)
    pair.same(DeleteGroupsRequest(groups_names=[group]), 2)
    pair.same(beating(group, member_epoch=-1), 1)
    pair.same(ConsumerGroupDescribeRequest(group_ids=[group, f"absent-{group}"]), 1)
    pair.same(DeleteGroupsRequest(groups_names=[group]), 2)
