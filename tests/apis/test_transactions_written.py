"""Producing in transactions: how they begin, fencing, and the effect of delayed requests."""

import pytest

from penstock.base.errors import ErrorCode
from tests.apis.requests import end_offset, new_producer_id
from tests.apis.transactional import TransactionalProducer, read_committed
from tests.raw_client import RawClient, batch_of

NONE = ErrorCode.NONE
OLD = 11  # of Produce: clients that add partitions themselves


@pytest.fixture
def producer(client: RawClient, topic: str) -> TransactionalProducer:
    client.create_topic(topic, partitions=3)
    return TransactionalProducer(client)


def test_a_client_of_version_2_adds_partitions_by_writing_to_them(
    producer: TransactionalProducer, topic: str
):
    assert producer.send(topic, partition=0).error_code == NONE
    assert producer.send(topic, partition=2).error_code == NONE
    described = producer.describe()
    assert described.transaction_state == "Ongoing"
    assert [(t.topic, t.partitions) for t in described.topics] == [(topic, [0, 2])]


@pytest.mark.parametrize("count", [1, 10, 11])
def test_every_partition_of_a_transaction_gets_one_marker(client: RawClient, topic: str, count: int):
    client.create_topic(topic, partitions=count)
    producer = TransactionalProducer(client)
    for partition in range(count):
        assert producer.send(topic, b"x", partition=partition).error_code == NONE
    producer.finish(commit=True)
    assert [end_offset(client, topic, partition) for partition in range(count)] == [2] * count
    assert all(read_committed(client, topic, partition=partition) == [b"x"] for partition in range(count))


def test_an_older_client_must_have_added_the_partition(producer: TransactionalProducer, topic: str):
    assert producer.send(topic, version=OLD).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.send(topic, version=10).error_code == ErrorCode.INVALID_TXN_STATE
    assert producer.add(topic, 0) == [NONE]
    assert producer.send(topic, version=10).error_code == NONE
    assert producer.send(topic, partition=1, version=10).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_batch_that_comes_after_the_end_opens_no_transaction(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.add(topic, 0)
    producer.send(topic, b"in time", version=OLD)
    producer.finish(commit=True, version=4)
    assert producer.send(topic, b"late", sequence=1, version=OLD).error_code != NONE
    assert read_committed(client, topic) == [b"in time"]


def test_in_version_2_a_batch_that_comes_after_the_end_is_of_an_old_epoch(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"in time")
    before = producer.epoch
    producer.finish(commit=True)
    assert producer.epoch == before + 1
    late = producer.send(topic, b"late", sequence=1, epoch=before)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    unheard_of = producer.send(topic, b"late", partition=1, epoch=before)
    assert unheard_of.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert read_committed(client, topic) == [b"in time"]


def test_a_delayed_end_never_hits_the_next_transaction(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"first")
    before = producer.epoch
    producer.finish(commit=True)
    producer.send(topic, b"second")
    for commit in (True, False):
        assert producer.end(commit=commit, epoch=before).error_code == ErrorCode.PRODUCER_FENCED
    assert read_committed(client, topic) == [b"first"]
    producer.finish(commit=False)
    assert read_committed(client, topic) == [b"first"]


def test_the_next_transaction_waits_for_the_markers_of_the_last(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    for number in range(30):
        assert producer.send(topic, b"%d" % number).error_code == NONE
        answer = producer.end(commit=True)
        assert answer.error_code == NONE
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
    producer.send(topic)
    producer.finish(commit=False)
    assert read_committed(client, topic) == [b"%d" % number for number in range(30)]


def test_a_fenced_producer_writes_and_ends_nothing(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"zombie's")
    successor = TransactionalProducer(client, producer.name)
    assert successor.id == producer.id
    assert producer.send(topic, sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send(topic, partition=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.add(topic, 1) == [ErrorCode.PRODUCER_FENCED]
    assert producer.add(topic, 1, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert producer.end(commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.end(commit=True, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    successor.send(topic, b"successor's")
    successor.finish(commit=True)
    assert read_committed(client, topic) == [b"successor's"]


def test_a_batch_sent_again_is_written_once(producer: TransactionalProducer, client: RawClient, topic: str):
    first = producer.send(topic, b"once")
    again = producer.send(topic, b"once")
    assert (again.error_code, again.base_offset) == (NONE, first.base_offset)
    assert end_offset(client, topic) == 1


def test_a_transactional_batch_needs_a_transactional_id(client: RawClient, topic: str):
    client.create_topic(topic)
    producer_id = new_producer_id(client)
    batch = batch_of(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    refused = client.produce(topic, batch)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_transactional_batch_needs_a_producer_id(producer: TransactionalProducer, topic: str):
    refused = producer.send(topic, producer_id=-1, epoch=-1, sequence=-1)
    assert refused.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def test_a_producer_id_of_another_transactional_id_is_rejected(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    other = TransactionalProducer(client)
    refused = producer.send(topic, producer_id=other.id)
    assert refused.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_record_outside_of_the_transaction_is_refused_within(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic)
    batch = batch_of(b"x", producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=1)
    assert client.produce(topic, batch).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_transaction_that_takes_too_long_is_aborted(client: RawClient, topic: str):
    client.create_topic(topic)
    slow = TransactionalProducer(client, timeout_ms=50)
    slow.send(topic, b"slow")
    slow.wait_for("CompleteAbort")
    assert slow.end(commit=True).error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
    assert read_committed(client, topic) == []
    assert slow.send(topic, sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
