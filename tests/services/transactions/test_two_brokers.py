"""Transactions whose partitions, coordinator and groups are on two brokers."""

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.client.connection import ConnectionLimits
from penstock.cluster.metadata import NO_LEADER
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.apis.transactional import TRANSACTION, TransactionalProducer, read_committed
from tests.proving import as_another, prove
from tests.raw_client import RawClient
from tests.services.transactions.pair import LEFT, RIGHT, Pair, key_led_by

NONE = ErrorCode.NONE
PATIENCE_S = 60
HOUR_MS = 3_600_000
TOPIC = "orders"


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        pair.create(TOPIC)
        yield pair


def eventually(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s


def new_producer(pair: Pair, coordinator: int = LEFT) -> TransactionalProducer:
    return TransactionalProducer(pair.clients[coordinator], key_led_by(coordinator))


def at(producer: TransactionalProducer, client: RawClient) -> TransactionalProducer:
    """The same producer, talking to another broker."""
    there = copy.copy(producer)
    there.client = client
    return there


def committed_offset(client: RawClient, group: str) -> int:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    return int(client.ask(request, 8).groups[0].topics[0].partitions[0].committed_offset)


def listed(client: RawClient) -> list[str]:
    return [state.transactional_id for state in client.ask(ListTransactionsRequest(), 0).transaction_states]


@pytest.mark.parametrize("coordinator", [LEFT, RIGHT])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_in_the_partitions_of_all_brokers(pair: Pair, coordinator: int, commit: bool):
    producer = new_producer(pair, coordinator)
    assert at(producer, pair.left).send(TOPIC, b"a", partition=0).error_code == NONE
    assert at(producer, pair.right).send(TOPIC, b"b", partition=1).error_code == NONE
    assert read_committed(pair.left, TOPIC, partition=0) == []
    producer.finish(commit=commit)
    assert read_committed(pair.left, TOPIC, partition=0) == ([b"a"] if commit else [])
    assert read_committed(pair.right, TOPIC, partition=1) == ([b"b"] if commit else [])


def test_one_transaction_follows_the_other(pair: Pair):
    """The next one begins while the markers of the last one may still be on their way."""
    producer = new_producer(pair)
    for number in range(20):
        there = at(producer, pair.right)
        assert there.send(TOPIC, str(number).encode(), partition=1).error_code == NONE
        answer = producer.end(commit=True)
        assert answer.error_code == NONE
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
    producer.wait_for("Complete")
    assert read_committed(pair.right, TOPIC, partition=1) == [str(number).encode() for number in range(20)]


def test_what_an_older_client_added_is_verified_at_the_coordinator(pair: Pair):
    producer = new_producer(pair)
    there = at(producer, pair.right)
    refused = there.send(TOPIC, b"early", partition=1, version=11)
    assert refused.error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.add(TOPIC, 1) == [NONE]
    assert there.send(TOPIC, b"added", partition=1, version=11).error_code == NONE
    producer.finish(commit=True, version=3)
    assert read_committed(pair.right, TOPIC, partition=1) == [b"added"]


def test_verification_is_retried_if_the_coordinator_does_not_know_the_topic_yet(pair: Pair):
    producer = new_producer(pair)
    pair.create("new", only=RIGHT)
    there = at(producer, pair.right)
    assert there.send("new", b"x", partition=1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    pair.tell(LEFT, "new")
    assert there.send("new", b"x", partition=1).error_code == NONE


def test_every_leader_rejects_a_fenced_producer(pair: Pair):
    producer = new_producer(pair)
    old = at(producer, pair.right)
    producer.initialize()
    assert old.send(TOPIC, b"x", partition=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [3, 5])
def test_offsets_are_committed_to_a_group_on_another_broker(pair: Pair, version: int):
    producer, group = new_producer(pair, LEFT), key_led_by(RIGHT)
    if version < 5:
        assert producer.add_offsets(group) == NONE
    assert at(producer, pair.right).commit_offset(group, TOPIC, 7, version=version) == NONE
    producer.finish(commit=True, version=version)
    assert committed_offset(pair.right, group) == 7


def test_a_broker_that_does_not_coordinate_the_group_adds_no_offsets(pair: Pair):
    producer, group = new_producer(pair, LEFT), key_led_by(RIGHT)
    asked = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[asked])],
    )
    (partition,) = pair.left.ask(request, 5).topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_COORDINATOR
    assert producer.describe().transaction_state == "Empty"


def test_only_the_coordinator_serves_a_transactional_id(pair: Pair):
    producer = new_producer(pair, LEFT)
    wrong = at(producer, pair.right)
    assert wrong.initialize(patient=False).error_code == ErrorCode.NOT_COORDINATOR
    prove(pair.right, as_another(pair.services(RIGHT).cluster.peer_credentials), to=RIGHT)
    assert wrong.add_as_broker(TOPIC, 0) == [ErrorCode.NOT_COORDINATOR]
    assert wrong.end(commit=True).error_code == ErrorCode.NOT_COORDINATOR


def test_every_broker_knows_the_coordinator_and_lists_its_own_transactions(pair: Pair):
    left, right = new_producer(pair, LEFT), new_producer(pair, RIGHT)
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[left.name, right.name])
    for client in (pair.left, pair.right):
        found = client.ask(request, 4).coordinators
        assert [(each.error_code, each.node_id) for each in found] == [(NONE, LEFT), (NONE, RIGHT)]
    assert listed(pair.left) == [left.name]
    assert listed(pair.right) == [right.name]


def test_without_a_leader_there_is_no_coordinator(pair: Pair):
    producer = new_producer(pair)
    pair.lead(TRANSACTION_STATE, 0, NO_LEADER)
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[producer.name])
    (found,) = pair.right.ask(request, 4).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    # The partition's leader has no coordinator to ask: the error is retriable.
    refused = at(producer, pair.right).send(TOPIC, b"x", partition=1)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def begun_on_both(pair: Pair) -> TransactionalProducer:
    producer = new_producer(pair)
    assert producer.send(TOPIC, b"a", partition=0).error_code == NONE
    assert at(producer, pair.right).send(TOPIC, b"b", partition=1).error_code == NONE
    return producer


def end(producer: TransactionalProducer) -> None:
    assert producer.end(commit=True).error_code == NONE


def test_a_partition_without_a_leader_gets_its_marker_when_it_has_one(pair: Pair):
    producer = begun_on_both(pair)
    pair.lead(TOPIC, 1, NO_LEADER, only=LEFT)
    end(producer)
    eventually(lambda: read_committed(pair.left, TOPIC, partition=0) == [b"a"])  # its marker need not wait
    assert producer.describe().transaction_state == "PrepareCommit"
    pair.lead(TOPIC, 1, RIGHT)
    producer.wait_for("CompleteCommit")
    assert read_committed(pair.right, TOPIC, partition=1) == [b"b"]


def test_a_leader_without_the_metadata_gets_the_marker_later(pair: Pair):
    producer = begun_on_both(pair)
    pair.lead(TOPIC, 1, LEFT, only=RIGHT)
    end(producer)
    pair.lead(TOPIC, 1, RIGHT, only=LEFT)
    assert producer.describe().transaction_state == "PrepareCommit"
    pair.tell(RIGHT, TOPIC)
    producer.wait_for("CompleteCommit")
    assert read_committed(pair.right, TOPIC, partition=1) == [b"b"]


def test_a_broker_that_cannot_be_reached_gets_the_marker_later(pair: Pair):
    producer = new_producer(pair, RIGHT)
    assert producer.send(TOPIC, b"b", partition=1).error_code == NONE
    assert at(producer, pair.left).send(TOPIC, b"a", partition=0).error_code == NONE
    pair.introduce(LEFT, to=RIGHT, port=1)
    end(producer)
    eventually(lambda: read_committed(pair.right, TOPIC, partition=1) == [b"b"])
    assert producer.describe().transaction_state == "PrepareCommit"
    pair.introduce(LEFT, to=RIGHT)
    producer.wait_for("CompleteCommit")
    assert read_committed(pair.left, TOPIC, partition=0) == [b"a"]


def test_a_broker_that_left_the_cluster_is_not_waited_for(pair: Pair, monkeypatch: pytest.MonkeyPatch):
    """Neither its response nor the end of the connection ever comes: only the metadata says that it left."""
    monkeypatch.setattr("penstock.apis.k27_write_txn_markers._TIMEOUT_MS", HOUR_MS)
    monkeypatch.setattr(
        "penstock.cluster.peers._LIMITS", ConnectionLimits(request_timeout_ms=HOUR_MS, in_flight_max=100)
    )
    pair.create("synced", {"flush.messages": "1"})
    producer = new_producer(pair, RIGHT)
    assert at(producer, pair.left).send("synced", partition=0).error_code == NONE
    gate = pair.brokers[LEFT].gate
    gate.hold("synced-0/")
    end(producer)
    gate.wait_until_one_is_held()  # the marker is there, and not safe
    pair.lead("synced", 0, RIGHT, only=RIGHT)

    pair.introduce(LEFT, to=RIGHT, fenced=True)
    producer.wait_for("CompleteCommit")


def test_a_topic_that_is_gone_needs_no_marker(pair: Pair):
    producer = begun_on_both(pair)
    pair.delete(TOPIC)
    end(producer)
    producer.wait_for("CompleteCommit")


def test_a_prepared_transaction_goes_on_with_its_coordinator_on_another_broker(pair: Pair):
    producer = begun_on_both(pair)
    pair.lead(TOPIC, 1, NO_LEADER, only=LEFT)
    end(producer)
    pair.lead(TOPIC, 1, RIGHT, only=RIGHT)
    pair.hand_over(TRANSACTION_STATE, 0)
    # No request reaches the new coordinator: it has the marker written of its own accord.
    eventually(lambda: read_committed(pair.right, TOPIC, partition=1) == [b"b"])
    assert producer.describe().error_code == ErrorCode.NOT_COORDINATOR
    at(producer, pair.right).wait_for("CompleteCommit")


def test_a_former_coordinator_leaves_the_markers_to_the_next(pair: Pair):
    producer = begun_on_both(pair)
    pair.lead(TOPIC, 1, NO_LEADER, only=LEFT)
    end(producer)
    pair.lead(TRANSACTION_STATE, 0, NO_LEADER)
    writer = pair.services(LEFT).transactions.marker_writer
    pair.brokers[LEFT].run(lambda: writer.ended(producer.name, timeout_s=3600))
    pair.lead(TOPIC, 1, RIGHT)
    assert read_committed(pair.right, TOPIC, partition=1) == []


def test_a_group_moves_with_the_leader_of_its_partition(pair: Pair):
    producer, group = new_producer(pair, LEFT), key_led_by(RIGHT)
    assert at(producer, pair.right).commit_offset(group, TOPIC, 7) == NONE
    producer.finish(commit=True)
    assert committed_offset(pair.right, group) == 7
    pair.hand_over(CONSUMER_OFFSETS, 1)
    assert committed_offset(pair.left, group) == 7
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    moved: Any = pair.right.ask(request, 8).groups[0]
    assert moved.error_code == ErrorCode.NOT_COORDINATOR


def test_offsets_of_a_topic_deleted_while_its_group_moved_are_deleted(pair: Pair):
    producer, group = new_producer(pair, LEFT), key_led_by(RIGHT)
    assert at(producer, pair.right).commit_offset(group, TOPIC, 7) == NONE
    producer.finish(commit=True)
    pair.delete(TOPIC, only=LEFT)  # the right one will not forget them
    pair.hand_over(CONSUMER_OFFSETS, 1)
    eventually(lambda: committed_offset(pair.left, group) == -1)
