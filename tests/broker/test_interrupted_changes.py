"""Changes of topics during a lost connection or a disk failure: made completely, or not at all."""

import asyncio
import errno
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicId
from penstock.cluster import topic_deletions
from penstock.cluster.metadata_changes import Change
from penstock.cluster.topic_deletions import Deletion
from penstock.storage.log import Log
from penstock.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.wire.messages.metadata import MetadataRequest
from tests.apis.requests import delete_topic, end_offset, exists, topic_id, values_in
from tests.broker.controlled import ControlledBroker, GatedDisk
from tests.raw_client import RawClient, batch_of


class RefusingDisk(GatedDisk):
    """Makes no directory, or moves none, whose path ends in `refused`."""

    refused = "\0"

    def make_dir(self, path: str) -> None:
        self._refuse(path)
        self._disk.make_dir(path)

    def rename(self, source: str, target: str) -> None:
        self._refuse(target)
        self._disk.rename(source, target)

    def _refuse(self, path: str) -> None:
        if path.endswith(self.refused):
            raise OSError(errno.ENOSPC, "there is no room", path)


@pytest.fixture
def broker() -> Iterator[ControlledBroker]:
    broker = ControlledBroker()
    broker.disk = RefusingDisk(broker.gate)
    with broker:
        yield broker


@pytest.fixture
def client(broker: ControlledBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def creation(name: str, *, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])


def create(client: RawClient, name: str, *, partitions: int) -> Any:
    return client.ask(creation(name, partitions=partitions), 7).topics[0]


def grow(client: RawClient, name: str, *, count: int) -> Any:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return client.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1000), 3).results[0]


def partition_count(client: RawClient, name: str) -> int:
    topics = client.ask(MetadataRequest(topics=None), 12).topics
    return next(len(topic.partitions) for topic in topics if topic.name == name)


def test_a_topic_is_created_to_the_end_when_the_connection_that_asked_is_lost(
    broker: ControlledBroker, client: RawClient
):
    async def lose_who_waits() -> None:
        assert broker.broker._connections is not None
        for connection in list(broker.broker._connections._open):
            if not connection.is_idle:
                connection.abort()
        await asyncio.sleep(0.01)

    with RawClient(broker.bootstrap_servers) as lost:
        broker.gate.hold("__metadata")
        lost.send(creation("t"), 7)
        broker.gate.wait_until_one_is_held()
        broker.run(lose_who_waits)
        broker.gate.release()
        assert lost.is_closed_by_broker()
    broker.run(broker.broker.services.cluster.controller.settle)
    assert exists(client, "t")
    assert client.produce("t", batch_of(b"x")).error_code == ErrorCode.NONE


def test_a_topic_that_found_no_room_can_be_created_later(broker: ControlledBroker, client: RawClient):
    broker.disk.refused = "t-1"
    refused = create(client, "t", partitions=2)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "no room" in refused.error_message
    assert not exists(client, "t")
    assert not [name for name in broker.disk.list("") if name.startswith("t-")]
    broker.disk.refused = "\0"
    assert create(client, "t", partitions=2).error_code == ErrorCode.NONE
    assert client.produce("t", batch_of(b"x"), partition=1).error_code == ErrorCode.NONE


def test_a_topic_that_could_not_grow_is_as_before_and_can_grow_later(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t")
    client.produce("t", batch_of(b"x"))
    broker.disk.refused = "t-2"
    assert grow(client, "t", count=3).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition_count(client, "t") == 1
    assert [name for name in broker.disk.list("") if name.startswith("t-")] == ["t-0"]
    broker.disk.refused = "\0"
    assert grow(client, "t", count=3).error_code == ErrorCode.NONE
    assert partition_count(client, "t") == 3
    assert values_in(client.fetch("t", 0).records) == [b"x"]


def test_a_namesake_of_a_topic_whose_files_could_not_be_moved_begins_empty(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t")
    client.produce("t", batch_of(b"old", b"old"))
    broker.disk.refused = "-delete"
    delete_topic(client, "t")
    broker.disk.refused = "\0"
    client.create_topic("t")
    client.produce("t", batch_of(b"new"))
    assert values_in(client.fetch("t", 0).records) == [b"new"]
    assert end_offset(client, "t") == 1


def test_a_topic_whose_checkpoints_cannot_be_written_is_deleted_all_the_same(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t")
    client.produce("t", batch_of(b"old"))
    broker.run(broker.background.write_checkpoints)
    broker.disk.refused = "-checkpoint"
    delete_topic(client, "t")
    assert not exists(client, "t")
    broker.disk.refused = "\0"
    client.create_topic("t")
    client.produce("t", batch_of(b"new"))
    assert values_in(client.fetch("t", 0).records) == [b"new"]


def test_deleting_by_id_spares_a_namesake_that_came_meanwhile(broker: ControlledBroker, client: RawClient):
    client.create_topic("t")
    old_id = topic_id(client, "t")
    lock = broker.broker.services.cluster.controller._one_at_a_time

    async def until_so_many_wait(count: int) -> None:
        while len(lock._waiters or ()) < count:
            await asyncio.sleep(0.001)

    with RawClient(broker.bootstrap_servers) as second, RawClient(broker.bootstrap_servers) as third:
        broker.gate.hold("__metadata")
        client.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        broker.gate.wait_until_one_is_held()
        second.send(creation("t"), 7)
        broker.run(lambda: until_so_many_wait(1))
        third.send(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=old_id)]), 6)
        broker.run(lambda: until_so_many_wait(2))
        broker.gate.release()
        answer = third.receive(20, 6, DeleteTopicsResponse).responses[0]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert exists(third, "t")


def test_the_limit_of_partitions_holds_for_assignments_too():
    assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=[1]) for i in range(4)]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
    broker = ControlledBroker(settings={"penstock.partitions.max": "3"})
    with broker, RawClient(broker.bootstrap_servers) as client:
        answer = client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0]
        assert answer.error_code == ErrorCode.POLICY_VIOLATION


def test_checkpoints_that_are_being_written_do_not_bring_a_deleted_topic_back(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t")
    client.produce("t", batch_of(*[b"x"] * 5))
    below_four = DeleteRecordsTopic(
        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)]
    )
    client.ask(DeleteRecordsRequest(topics=[below_four], timeout_ms=1000), 2)
    broker.run(broker.background.write_checkpoints)
    broker.gate.hold("log-start-offset-checkpoint")
    writing = threading.Thread(target=lambda: broker.run(broker.background.write_checkpoints))
    writing.start()
    broker.gate.wait_until_one_is_held()
    deleting = threading.Thread(target=lambda: delete_topic(client, "t"))
    deleting.start()
    assert not broker.gate.entered.acquire(timeout=0.2), "two write the same checkpoint at once"
    broker.gate.release()
    writing.join()
    deleting.join()
    broker.run(broker.background.write_checkpoints)
    for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint"):
        file = broker.disk.open(name)
        assert file.read(0, file.size) == b"0\n0\n"


@pytest.mark.interpreted("Log.checkpoint_offset")
def test_others_have_their_turns_while_offsets_are_noted_and_a_topic_that_goes_meanwhile_does_not_come_back(
    broker: ControlledBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
):
    client.create_topic("t", partitions=40)
    services = broker.broker.services
    genuine = Log.checkpoint_offset.fget
    noted: list[int] = []
    turns = 0

    def note(log: Log) -> Any:
        noted.append(turns)
        return genuine(log)

    async def story() -> None:
        nonlocal turns
        seconds = itertools.count()
        # Each read of the clock advances it by 1 s, so every step has used up its time.
        broker._shifted.time = lambda: float(next(seconds))
        writing = asyncio.ensure_future(services.logs.replicas.checkpoints.write_checkpoints())
        deleting = asyncio.ensure_future(services.cluster.controller.delete_topic("t"))
        while not (writing.done() and deleting.done()):
            turns += 1
            await asyncio.sleep(0)
        await writing
        assert not isinstance(await deleting, Refusal)

    monkeypatch.setattr(Log, "checkpoint_offset", property(note))
    broker.run(story)
    assert len(set(noted)) == 40
    broker.run(broker.background.write_checkpoints)
    file = broker.disk.open("recovery-point-offset-checkpoint")
    assert file.read(0, file.size) == b"0\n0\n"


def test_a_topic_that_is_gone_without_a_record_of_its_deletion_is_closed_and_its_files_stay(
    broker: ControlledBroker, client: RawClient
):
    client.create_topic("t")
    client.produce("t", batch_of(b"x"))
    gone = Deletion(TopicId(topic_id(client, "t")), None)
    broker.run(lambda: broker.broker._publisher.follow(Change(deleted={"t": gone})))
    assert not exists(client, "t")
    assert "t-0" in broker.disk.list("")


def test_a_deletion_of_a_namesake_is_not_taken_for_ones_own(broker: ControlledBroker, client: RawClient):
    client.create_topic("t")
    another = Deletion(TopicId(b"another topic id"), 7)
    broker.run(lambda: broker.broker._publisher.follow(Change(deleted={"t": another})))
    assert exists(client, "t")
    assert client.produce("t", batch_of(b"x")).error_code == ErrorCode.NONE


def test_the_metadata_keep_the_records_of_the_last_deletions_and_no_more(
    broker: ControlledBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(topic_deletions, "KEPT", 4)
    monkeypatch.setattr(topic_deletions, "TRIMMED_EVERY", 3)
    ids = []
    for _ in range(10):
        client.create_topic("t")
        ids.append(topic_id(client, "t"))
        delete_topic(client, "t")
    nodes = broker.run(lambda: broker.broker._world.store.children("/deletions"))
    kept = [Deletion.of_node(node) for node in sorted(nodes)]
    assert [each.topic_id for each in kept if each is not None] == ids[-4:]
