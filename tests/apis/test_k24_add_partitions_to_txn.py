"""AddPartitionsToTxn, of clients and of brokers, and AddOffsetsToTxn."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.apis.transactional import TransactionalProducer
from tests.proving import credentials_of, prove
from tests.raw_client import RawClient

NONE = ErrorCode.NONE


@pytest.fixture
def producer(client: RawClient, topic: str) -> TransactionalProducer:
    client.create_topic(topic, partitions=3)
    return TransactionalProducer(client)


def added(producer: TransactionalProducer) -> dict[str, list[int]]:
    return {topic.topic: topic.partitions for topic in producer.describe().topics}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_client_adds_partitions_one_after_the_other(
    producer: TransactionalProducer, topic: str, version: int
):
    assert producer.add(topic, 2, version=version) == [NONE]
    assert producer.add(topic, 0, 2, version=version) == [NONE, NONE]
    assert added(producer) == {topic: [0, 2]}
    assert producer.describe().transaction_state == "Ongoing"


def test_a_partition_that_does_not_exist_keeps_the_others_out(producer: TransactionalProducer, topic: str):
    assert producer.add(topic, 0, 9) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert producer.add("no-such-topic", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.describe().transaction_state == "Empty"


def test_another_transactional_ids_producer_id_is_rejected(producer: TransactionalProducer, topic: str):
    producer.id += 1000
    assert producer.add(topic, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_brokers_add_and_verify_for_several_transactions_at_once(
    producer: TransactionalProducer, broker: EmbeddedBroker, client: RawClient, topic: str
):
    other = TransactionalProducer(client)
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=one.name,
                producer_id=one.id,
                producer_epoch=one.epoch,
                topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
            )
            for index, one in enumerate((producer, other))
        ]
    )
    prove(client, credentials_of(broker), to=1)
    answer = client.ask(request, 5)
    assert [result.transactional_id for result in answer.results_by_transaction] == [
        producer.name,
        other.name,
    ]
    assert added(producer) == {topic: [0]}
    assert added(other) == {topic: [1]}


def test_verifying_adds_nothing(
    producer: TransactionalProducer, broker: EmbeddedBroker, client: RawClient, topic: str
):
    prove(client, credentials_of(broker), to=1)
    producer.add_as_broker(topic, 0)
    codes = producer.add_as_broker(topic, 0, 1, verify_only=True)
    assert codes == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert added(producer) == {topic: [0]}


def test_an_empty_transactional_id_is_an_invalid_request(producer: TransactionalProducer, topic: str):
    producer.name = ""
    assert producer.add(topic, 0) == [ErrorCode.INVALID_REQUEST]
    assert producer.add_offsets("group") == ErrorCode.INVALID_REQUEST
    assert producer.end(commit=True).error_code == ErrorCode.INVALID_REQUEST


def test_offsets_of_a_group_add_its_partition_of_the_internal_topic(producer: TransactionalProducer):
    assert producer.add_offsets("some-group") == NONE
    ((topic, partitions),) = added(producer).items()
    assert topic == "__consumer_offsets"
    assert len(partitions) == 1
    assert producer.add_offsets("some-group") == NONE
    producer.epoch += 1
    assert producer.add_offsets("some-group") == ErrorCode.PRODUCER_FENCED
    assert producer.add_offsets("some-group", version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
