"""ListTransactions and DescribeTransactions: states, filters, unknown ids."""

from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from tests.apis.transactional import TransactionalProducer
from tests.raw_client import RawClient


@pytest.fixture
def producer(client: RawClient, topic: str) -> TransactionalProducer:
    client.create_topic(topic)
    return TransactionalProducer(client)


def listed(client: RawClient, version: int = 2, **filters: Any) -> dict[str, str]:
    answer = client.ask(ListTransactionsRequest(**filters), version)
    assert answer.error_code == 0
    return {state.transactional_id: state.transaction_state for state in answer.transaction_states}


def test_every_id_is_listed_with_its_state(producer: TransactionalProducer, client: RawClient, topic: str):
    assert listed(client)[producer.name] == "Empty"
    producer.send(topic)
    assert listed(client, version=0)[producer.name] == "Ongoing"
    producer.finish(commit=True)
    assert listed(client)[producer.name] == "CompleteCommit"
    producer.send(topic)
    producer.finish(commit=False)
    assert listed(client)[producer.name] == "CompleteAbort"


def test_filters_by_state_producer_duration_and_pattern(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    name = producer.name
    producer.send(topic)
    assert name in listed(client, state_filters=["Ongoing"])
    assert name not in listed(client, state_filters=["Empty"])
    assert listed(client, producer_id_filters=[producer.id]) == {name: "Ongoing"}
    assert name not in listed(client, duration_filter=600_000)
    assert listed(client, transactional_id_pattern=name[:-1] + ".") == {
        found: state
        for found, state in listed(client).items()
        if len(found) == len(name) and found[:-1] == name[:-1]
    }
    assert name not in listed(client, transactional_id_pattern=name[:-1])
    assert name in listed(client, transactional_id_pattern="")


def test_unknown_states_are_named(client: RawClient, producer: TransactionalProducer):
    answer = client.ask(ListTransactionsRequest(state_filters=["Ongoing", "Bogus"]), 2)
    assert answer.unknown_state_filters == ["Bogus"]
    assert producer.name not in [state.transactional_id for state in answer.transaction_states]


def test_an_invalid_pattern_is_rejected(client: RawClient, producer: TransactionalProducer):
    assert producer.describe().error_code == 0
    answer = client.ask(ListTransactionsRequest(transactional_id_pattern="(unclosed"), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_open_transaction_is_described_with_its_partitions(producer: TransactionalProducer, topic: str):
    producer.send(topic)
    described = producer.describe()
    assert (described.error_code, described.transaction_state) == (0, "Ongoing")
    assert (described.producer_id, described.producer_epoch) == (producer.id, producer.epoch)
    assert described.transaction_timeout_ms == 60_000
    assert described.transaction_start_time_ms > 1_600_000_000_000
    assert [(t.topic, t.partitions) for t in described.topics] == [(topic, [0])]


def test_ids_that_do_not_exist_are_not_found(client: RawClient, producer: TransactionalProducer):
    request = DescribeTransactionsRequest(transactional_ids=["nobody-has-this", "", producer.name])
    codes = [state.error_code for state in client.ask(request, 0).transaction_states]
    assert codes == [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST, 0]
