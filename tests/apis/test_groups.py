"""The APIs of groups (keys 8, 9, 11-16, 42, 47, 68, 69), one after the other, and their bad input.

What Apache Kafka answers to all of these is compared in `tests/foreign/test_answers_groups.py`.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.schema.codec import decode, encode
from penstock.testing import EmbeddedBroker
from penstock.wire.headers import RequestHeader, frame_request
from penstock.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.wire.messages.consumer_group_heartbeat import TopicPartitions
from penstock.wire.messages.delete_groups import DeleteGroupsRequest
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.join_group import JoinGroupResponse
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.list_groups import ListGroupsRequest
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from penstock.wire.messages.sync_group import SyncGroupRequestAssignment, SyncGroupResponse
from tests.apis.groups import SETTINGS, committed, join, new_group, stable
from tests.apis.requests import delete_topic, topic_id
from tests.apis.transactional import TransactionalProducer
from tests.group_messages import METADATA, beating, committing, fetching, joining, syncing
from tests.raw_client import RawClient


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


@pytest.fixture
def known_topic(client: RawClient, topic: str) -> str:
    client.create_topic(topic)
    return topic


def commit_codes(client: RawClient, request: Any, version: int = 9) -> list[int]:
    return [p.error_code for topic in client.ask(request, version).topics for p in topic.partitions]


def leaving(group: str, *members: MemberIdentity) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group, members=list(members))


# JoinGroup, SyncGroup, Heartbeat, LeaveGroup.


def test_the_first_member_leads_and_knows_all_members(client: RawClient, group: str) -> None:
    joined = join(client, group)
    assert joined.error_code == 0
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (1, "range", joined.member_id)
    assert [(one.member_id, one.metadata) for one in joined.members] == [(joined.member_id, METADATA)]
    assert joined.member_id.startswith("raw-")


def test_before_version_4_a_member_gets_its_id_and_joins_at_once(client: RawClient, group: str) -> None:
    joined = client.ask(joining(group), 3)
    assert (joined.error_code, joined.leader) == (0, joined.member_id)


def test_two_members_wait_for_each_other(client: RawClient, another_client: RawClient, group: str) -> None:
    first = stable(client, group)
    second = another_client.ask(joining(group), 9).member_id
    another_client.send(joining(group, second), 9)
    while client.ask(HeartbeatRequest(group_id=group, generation_id=1, member_id=first), 4).error_code == 0:
        pass
    again = client.ask(joining(group, first), 9)
    waiting = another_client.receive(11, 9, type(again))
    assert (again.generation_id, waiting.generation_id) == (2, 2)
    assert {one.member_id for one in again.members} == {first, second}
    assert waiting.members == []
    another_client.send(syncing(group, second, 2), 5)
    client.ask(syncing(group, first, 2), 5)
    assert another_client.receive(14, 5, SyncGroupResponse).error_code == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_invalid_join_requests_are_rejected(
    client: RawClient, group: str, options: dict[str, Any], code: ErrorCode
) -> None:
    assert client.ask(joining(group, **options), 9).error_code == code


@pytest.mark.parametrize("version", [5, 9])
def test_a_member_whose_id_would_be_too_long_for_the_protocol_is_rejected(
    client: RawClient, group: str, version: int
) -> None:
    refused = client.ask(joining(group, instance_id="i" * 32_750), version)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(joining(group, instance_id="i" * 32_000), version).error_code == 0


def test_a_member_with_another_protocol_is_rejected_and_the_group_stays(
    client: RawClient, group: str
) -> None:
    member = stable(client, group)
    refused = client.ask(joining(group, protocols=("other",)), 9)
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert client.ask(HeartbeatRequest(group_id=group, generation_id=1, member_id=member), 4).error_code == 0


def test_an_assignment_larger_than_a_batch_is_rejected_and_the_group_stays(
    client: RawClient, group: str
) -> None:
    member = join(client, group).member_id
    huge = [SyncGroupRequestAssignment(member_id=member, assignment=bytes(2_000_000))]
    answer = client.ask(syncing(group, member, assignments=huge), 5)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert client.ask(ListGroupsRequest(), 5).error_code == 0


@pytest.mark.parametrize("request_of", ["join", "sync", "heartbeat", "leave"])
def test_a_group_without_a_name_is_refused(client: RawClient, request_of: str) -> None:
    request, version = {
        "join": (joining(""), 9),
        "sync": (syncing("", "m"), 5),
        "heartbeat": (HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 4),
        "leave": (leaving("", MemberIdentity(member_id="m")), 5),
    }[request_of]
    assert client.ask(request, version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("member", "generation", "code"),
    [
        ("one", 1, ErrorCode.NONE),
        ("one", 0, ErrorCode.ILLEGAL_GENERATION),
        ("one", 2, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_unknown_members_and_stale_generations_get_their_error_codes(
    client: RawClient, group: str, known_topic: str, member: str, generation: int, code: ErrorCode
) -> None:
    member_id = stable(client, group) if member == "one" else (stable(client, group), member)[1]
    heartbeat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    assert client.ask(heartbeat, 4).error_code == code
    assert client.ask(syncing(group, member_id, generation), 5).error_code == code
    commit = committing(group, known_topic, 5, member_id=member_id, generation_id_or_member_epoch=generation)
    assert commit_codes(client, commit) == [code]
    assert committed(client, group, known_topic) == (5 if code is ErrorCode.NONE else -1)


def test_from_version_5_on_a_sync_must_name_the_protocol(client: RawClient, group: str) -> None:
    member = stable(client, group)
    answer = client.ask(syncing(group, member, protocol_name=None), 5)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert client.ask(syncing(group, member, protocol_name=None), 4).error_code == 0


def test_several_members_leave_and_each_has_its_own_error_code(client: RawClient, group: str) -> None:
    member = stable(client, group)
    answer = client.ask(
        leaving(group, MemberIdentity(member_id=member), MemberIdentity(member_id="nobody")), 5
    )
    assert [one.error_code for one in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert client.ask(DescribeGroupsRequest(groups=[group]), 6).groups[0].group_state == "Empty"


def test_a_member_may_disconnect_while_its_join_waits(
    broker: EmbeddedBroker, client: RawClient, group: str
) -> None:
    stable(client, group)
    with RawClient(broker.bootstrap_servers) as gone:
        second = gone.ask(joining(group), 9).member_id
        gone.send(joining(group, second), 9)
    assert client.ask(DescribeGroupsRequest(groups=[group]), 6).groups[0].error_code == 0


# Offsets.


def test_offsets_of_a_group_without_members_are_kept(client: RawClient, group: str, known_topic: str) -> None:
    assert commit_codes(client, committing(group, known_topic, 5, metadata="note")) == [0]
    (answer,) = client.ask(fetching(group, known_topic, 0, 1), 9).groups[0].topics[0].partitions[:1]
    assert (answer.committed_offset, answer.metadata, answer.committed_leader_epoch) == (5, "note", 0)
    everything = client.ask(fetching(group, None), 9).groups[0].topics
    assert [(topic.name, len(topic.partitions)) for topic in everything] == [(known_topic, 1)]


def test_commits_that_come_together_are_answered_in_order_and_so_is_what_follows(
    client: RawClient, group: str, known_topic: str
) -> None:
    commits = [committing(group, known_topic, offset) for offset in range(1, 51)]
    requests = [*commits, fetching(group, known_topic, 0), committing(group, known_topic, 99)]
    client.socket.sendall(
        b"".join(
            bytes(piece)
            for number, request in enumerate(requests)
            for piece in frame_request(RequestHeader(request.API_KEY, 9, number, "raw"), encode(request, 9))
        )
    )
    frames = [client.receive_frame() for _ in requests]
    assert [int.from_bytes(frame[:4], "big") for frame in frames] == list(range(len(requests)))
    fetched = decode(OffsetFetchResponse, 9, frames[50], 5)
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 50
    assert committed(client, group, known_topic) == 99


def test_offsets_are_committed_and_fetched_by_topic_id(
    client: RawClient, group: str, known_topic: str
) -> None:
    known = topic_id(client, known_topic)
    commit = committing(group, "", 7)
    commit.topics[0].topic_id = known
    assert commit_codes(client, commit, 10) == [0]
    fetch = fetching(group, "", 0)
    fetch.groups[0].topics[0].topic_id = known
    assert client.ask(fetch, 10).groups[0].topics[0].partitions[0].committed_offset == 7
    fetch.groups[0].topics[0].topic_id = commit.topics[0].topic_id = b"sixteen bytes..."
    unknown = client.ask(fetch, 10).groups[0].topics[0].partitions[0]
    assert (unknown.error_code, unknown.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert commit_codes(client, commit, 10) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_an_offset_of_an_unknown_topic_is_not_committed(client: RawClient, group: str) -> None:
    assert commit_codes(client, committing(group, "absent", 5)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_metadata_that_is_too_large_is_refused_for_its_partition_only(
    client: RawClient, group: str, topic: str
) -> None:
    client.create_topic(topic, partitions=2)
    request = committing(group, topic, 5, 6, metadata="x" * 4097)
    request.topics[0].partitions[0].committed_metadata = "x" * 4096
    assert commit_codes(client, request) == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert committed(client, group, topic) == 5


def test_more_offsets_than_fit_into_one_batch_are_rejected(client: RawClient, group: str, topic: str) -> None:
    client.create_topic(topic, partitions=400)
    request = committing(group, topic, *range(400), metadata="x" * 4000)
    assert set(commit_codes(client, request)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert committed(client, group, topic) == -1


def test_an_offset_of_an_unknown_partition_is_not_committed(
    client: RawClient, group: str, known_topic: str
) -> None:
    codes = commit_codes(client, committing(group, known_topic, 5, 6))
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_deleted_topics_offsets_are_deleted(client: RawClient, group: str, known_topic: str) -> None:
    assert commit_codes(client, committing(group, known_topic, 5)) == [0]
    delete_topic(client, known_topic)
    while committed(client, group, known_topic) != -1:
        pass


def test_the_offsets_of_many_topics_deleted_at_once_are_deleted(client: RawClient, group: str) -> None:
    names = [f"{group}-{number}" for number in range(20)]
    for name in names:
        client.create_topic(name)
        assert commit_codes(client, committing(group, name, 5)) == [0]
    topics = [DeleteTopicState(name=name, topic_id=bytes(16)) for name in names]
    client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=60_000), 6)
    while client.ask(fetching(group, None), 9).groups[0].topics:
        pass


def test_a_topic_recreated_before_its_offsets_are_deleted_has_no_offsets() -> None:
    with EmbeddedBroker(settings=SETTINGS) as broker, RawClient(broker.bootstrap_servers) as client:
        client.create_topic("again")
        group = new_group(client)
        producer = TransactionalProducer(client)
        assert producer.commit_offset("of-a-transaction", "again", 6) == 0
        producer.finish(commit=True)
        assert commit_codes(client, committing(group, "again", 5)) == [0]
        # As if the broker died between the two, or the coordinator was not loaded yet.
        assert broker._life is not None
        broker._life.broker.services.cluster.image.on_topic_deleted.clear()
        delete_topic(client, "again")
        client.create_topic("again")
        assert committed(client, group, "again") == -1
        assert committed(client, "of-a-transaction", "again") == -1
        assert client.ask(fetching(group, None), 9).groups[0].topics == []


def test_before_version_2_a_group_error_is_in_each_partition(topic: str) -> None:
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        request = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        )
        first = client.ask(request, 1).topics[0].partitions[0]
        assert (first.error_code, first.committed_offset) == (ErrorCode.NOT_COORDINATOR, -1)
        assert client.ask(request, 7).error_code == ErrorCode.NOT_COORDINATOR


def test_offsets_are_deleted_unless_a_member_subscribes_to_the_topic(
    client: RawClient, group: str, known_topic: str
) -> None:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in (known_topic, "absent")
        ],
    )
    assert client.ask(request, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert commit_codes(client, committing(group, known_topic, 5)) == [0]
    answer = client.ask(request, 0)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert committed(client, group, known_topic) == -1


# Groups.


def test_groups_are_listed_by_state_and_type(client: RawClient, group: str) -> None:
    stable(client, group)

    def listed(**filters: list[str]) -> list[tuple[str, str]]:
        groups = client.ask(ListGroupsRequest(**filters), 5).groups
        return [(one.group_state, one.group_type) for one in groups if one.group_id == group]

    assert (
        listed()
        == listed(states_filter=["stable"])
        == listed(types_filter=["Classic"])
        == [("Stable", "classic")]
    )
    assert listed(states_filter=["Empty"]) == listed(types_filter=["consumer"]) == []


def test_a_group_is_described_with_its_members_and_assignments(client: RawClient, group: str) -> None:
    member = stable(client, group)
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    (described,) = client.ask(request, 6).groups
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert described.authorized_operations == 3400
    (one,) = described.members
    assert (one.member_id, one.member_assignment, one.client_host) == (member, b"all", "/127.0.0.1")


def test_a_group_that_does_not_exist_is_dead_or_since_version_6_not_found(
    client: RawClient, group: str
) -> None:
    old, new = (client.ask(DescribeGroupsRequest(groups=[group]), version).groups[0] for version in (5, 6))
    assert (old.group_state, old.error_code) == ("Dead", 0)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)


def test_only_a_group_without_members_is_deleted(client: RawClient, group: str, known_topic: str) -> None:
    def delete() -> int:
        code: int = client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results[0].error_code
        return code

    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert commit_codes(client, committing(group, known_topic, 5)) == [0]
    member = stable(client, group)
    assert delete() == ErrorCode.NON_EMPTY_GROUP
    client.ask(leaving(group, MemberIdentity(member_id=member)), 5)
    assert delete() == 0
    assert committed(client, group, known_topic) == -1


# The consumer protocol.


def test_a_member_of_the_consumer_protocol_gets_its_partitions(
    client: RawClient, group: str, known_topic: str
) -> None:
    known = topic_id(client, known_topic)
    answer = client.ask(beating(group, subscribed_topic_names=[known_topic]), 1)
    assert (answer.error_code, answer.member_id, answer.heartbeat_interval_ms) == (0, "me", 5000)
    assert answer.assignment.topic_partitions == [TopicPartitions(topic_id=known, partitions=[0])]
    (described,) = client.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    assert (described.group_state, described.assignor_name) == ("Stable", "uniform")
    (one,) = described.members
    assert (one.member_id, one.member_type) == ("me", 1)
    assert [(t.topic_name, t.partitions) for t in one.target_assignment.topic_partitions] == [
        (known_topic, [0])
    ]


def test_in_version_0_the_coordinator_names_the_member(client: RawClient, group: str) -> None:
    answer = client.ask(beating(group, ""), 0)
    assert answer.error_code == 0
    assert len(answer.member_id) == 22


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "odd"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(a"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_invalid_consumer_group_heartbeats_are_rejected(
    client: RawClient, group: str, options: dict[str, Any], code: ErrorCode
) -> None:
    answer = client.ask(beating(group, **options), 1)
    assert answer.error_code == code
    assert answer.error_message


def test_members_that_are_unknown_or_of_another_epoch_are_fenced(
    client: RawClient, group: str, known_topic: str
) -> None:
    epoch = client.ask(beating(group, subscribed_topic_names=[known_topic]), 1).member_epoch
    fenced = client.ask(beating(group, member_epoch=epoch + 5), 1)
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert client.ask(beating(group, "nobody", epoch), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    stale = committing(group, known_topic, 5, member_id="me", generation_id_or_member_epoch=epoch + 5)
    assert commit_codes(client, stale) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert client.ask(beating(group, member_epoch=epoch), 1).error_code == 0


# The coordinator.


def test_without_find_coordinator_there_is_no_coordinator() -> None:
    with EmbeddedBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        assert client.ask(joining("g"), 9).error_code == ErrorCode.NOT_COORDINATOR
        assert client.ask(ListGroupsRequest(), 5).groups == []
        client.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
        assert client.ask(joining("g"), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_members_and_offsets_survive_a_restart(tmp_path: Path) -> None:
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=SETTINGS) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic("kept")
        group = new_group(client)
        member = stable(client, group)
        commit = committing(group, "kept", 5, member_id=member, generation_id_or_member_epoch=1)
        assert commit_codes(client, commit) == [0]
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=SETTINGS) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert committed(client, group, "kept") == 5
        assert (
            client.ask(HeartbeatRequest(group_id=group, generation_id=1, member_id=member), 4).error_code == 0
        )


def test_a_stopping_broker_answers_members_that_wait() -> None:
    broker = EmbeddedBroker(settings=SETTINGS).start()
    with RawClient(broker.bootstrap_servers) as client, RawClient(broker.bootstrap_servers) as other:
        group = new_group(client)
        stable(client, group)
        second = other.ask(joining(group), 9).member_id
        other.send(joining(group, second), 9)
        member = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
        client.ask(member, 4)
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        assert other.receive(11, 9, JoinGroupResponse).error_code == ErrorCode.NOT_COORDINATOR
        stopping.join(timeout=60)
        assert not stopping.is_alive()
