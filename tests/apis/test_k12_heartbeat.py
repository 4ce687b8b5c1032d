"""Delayed heartbeat responses: members learn of a rebalance at once, and no other response is delayed by it.

The wait is set to minutes here, far longer than these clients have patience: whatever is answered was not waited for.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.apis.k12_heartbeat import CLIENTS_THAT_MAY_WAIT
from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from penstock.wire.messages.sync_group import SyncGroupRequestAssignment
from tests.apis.groups import SETTINGS, join, new_group
from tests.group_messages import committing, joining, syncing
from tests.raw_client import RawClient

SESSION_MS = 20 * 60_000
LONG_WAIT = {"penstock.group.heartbeat.wait.ms": str(SESSION_MS // 4)}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS | LONG_WAIT) as broker:
        yield broker


def introduce(client: RawClient, name: str = "librdkafka") -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert client.ask(request, 3).error_code == 0


def stable(client: RawClient, group: str) -> str:
    """The id of the only member of a stable group, which has time."""
    member_id: str = join(client, group, session_timeout_ms=SESSION_MS).member_id
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    assert client.ask(syncing(group, member_id, assignments=[assignment]), 5).assignment == b"all"
    return member_id


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


@pytest.fixture
def member_id(client: RawClient, group: str) -> str:
    introduce(client)
    return stable(client, group)


def beating(group: str, member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)


def heartbeat_code(client: RawClient) -> int:
    answer: HeartbeatResponse = client.receive(HeartbeatRequest.API_KEY, 4, HeartbeatResponse)
    return answer.error_code


def begin_rebalance(client: RawClient, group: str) -> None:
    """Another member joins, and waits for the others."""
    first = client.ask(joining(group), 9)
    client.send(joining(group, first.member_id), 9)


def test_a_delayed_heartbeat_response_announces_a_rebalance_at_once(
    client: RawClient, another_client: RawClient, group: str, member_id: str
) -> None:
    client.send(beating(group, member_id), 4)
    begin_rebalance(another_client, group)
    assert heartbeat_code(client) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_delayed_heartbeat_response_tells_a_member_that_it_was_removed(
    client: RawClient, another_client: RawClient, group: str, member_id: str
) -> None:
    client.send(beating(group, member_id), 4)
    members = [MemberIdentity(member_id=member_id)]
    assert another_client.ask(LeaveGroupRequest(group_id=group, members=members), 5).error_code == 0
    assert heartbeat_code(client) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_behind_a_delayed_heartbeat_is_answered_at_once(
    client: RawClient, group: str, member_id: str, topic: str
) -> None:
    client.create_topic(topic)
    client.send(beating(group, member_id), 4)
    commit = committing(group, topic, 7, member_id=member_id, generation_id_or_member_epoch=1)
    client.send(commit, 9)
    assert heartbeat_code(client) == ErrorCode.NONE
    committed = client.receive(OffsetCommitRequest.API_KEY, 9, OffsetCommitResponse)
    assert committed.topics[0].partitions[0].error_code == 0


def test_commits_and_heartbeats_sent_in_one_go_are_answered_in_order(
    client: RawClient, group: str, member_id: str, topic: str
) -> None:
    client.create_topic(topic)
    commit = committing(group, topic, 7, member_id=member_id, generation_id_or_member_epoch=1)
    sent = []
    for _ in range(10):
        sent += [client.send(beating(group, member_id), 4), client.send(commit, 9)]
    assert [int.from_bytes(client.receive_frame()[:4], "big") for _ in sent] == sent


def test_a_heartbeat_that_a_join_follows_is_answered_as_it_was_before_the_join(
    client: RawClient, group: str, member_id: str
) -> None:
    client.send(beating(group, member_id), 4)
    client.send(joining(group, member_id, session_timeout_ms=SESSION_MS), 9)
    assert heartbeat_code(client) == ErrorCode.NONE
    assert client.receive(JoinGroupRequest.API_KEY, 9, JoinGroupResponse).generation_id == 2


def test_a_heartbeat_that_a_leave_follows_is_answered_as_it_was_before_the_leave(
    client: RawClient, group: str, member_id: str
) -> None:
    client.send(beating(group, member_id), 4)
    client.send(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)]), 5)
    assert heartbeat_code(client) == ErrorCode.NONE
    assert client.receive(LeaveGroupRequest.API_KEY, 5, LeaveGroupResponse).members[0].error_code == 0


@pytest.mark.parametrize("name", sorted(CLIENTS_THAT_MAY_WAIT))
def test_heartbeats_of_clients_with_a_background_thread_are_delayed(
    client: RawClient, another_client: RawClient, group: str, name: str
) -> None:
    introduce(client, name)
    member_id = stable(client, group)
    client.send(beating(group, member_id), 4)
    begin_rebalance(another_client, group)
    assert heartbeat_code(client) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("name", ["kafkajs", "sarama", "kafka-python", "Librdkafka", None])
def test_other_clients_are_answered_at_once(client: RawClient, group: str, name: str | None) -> None:
    if name is not None:
        introduce(client, name)
    member_id = stable(client, group)
    assert client.ask(beating(group, member_id), 4).error_code == ErrorCode.NONE


def test_an_invalid_heartbeat_is_answered_at_once(client: RawClient, group: str, member_id: str) -> None:
    assert client.ask(beating(group, "nobody"), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    wrong: Any = HeartbeatRequest(group_id=group, generation_id=7, member_id=member_id)
    assert client.ask(wrong, 4).error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_member_may_disconnect_while_its_heartbeat_response_is_delayed(
    broker: EmbeddedBroker, client: RawClient, group: str
) -> None:
    with RawClient(broker.bootstrap_servers) as member:
        introduce(member)
        member_id = stable(member, group)
        member.send(beating(group, member_id), 4)
    begin_rebalance(client, group)
    with RawClient(broker.bootstrap_servers) as member:
        assert member.ask(beating(group, member_id), 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_stopping_broker_answers_delayed_heartbeats() -> None:
    with EmbeddedBroker(settings=SETTINGS | LONG_WAIT) as broker:
        client = RawClient(broker.bootstrap_servers)
        introduce(client)
        group = new_group(client)
        client.send(beating(group, stable(client, group)), 4)
        with RawClient(broker.bootstrap_servers) as other:  # whose answer says that the heartbeat has come in
            assert other.ask(FindCoordinatorRequest(key=group, key_type=0), 3).error_code == 0
    with client:
        assert heartbeat_code(client) == ErrorCode.NOT_COORDINATOR


def test_a_delayed_heartbeat_without_a_rebalance_ends_without_an_error() -> None:
    settings = SETTINGS | {
        "penstock.group.heartbeat.wait.ms": "1",
        "penstock.connection.inflight.requests.max": "1",
    }
    with (
        EmbeddedBroker(settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        introduce(client)
        group = new_group(client)
        member_id = stable(client, group)
        for _ in range(3):
            assert client.ask(beating(group, member_id), 4).error_code == ErrorCode.NONE


def test_the_next_request_releases_a_delayed_heartbeat_response() -> None:
    settings = SETTINGS | LONG_WAIT | {"penstock.connection.inflight.requests.max": "1"}
    with (
        EmbeddedBroker(settings=settings) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        introduce(client)
        group = new_group(client)
        member_id = stable(client, group)
        sent = [client.send(beating(group, member_id), 4) for _ in range(3)]
        sent.append(client.send(FindCoordinatorRequest(key=group, key_type=0), 3))
        assert [int.from_bytes(client.receive_frame()[:4], "big") for _ in sent] == sent
