"""InitProducerId with transactional ids: epochs, fencing, bad input, and two-phase commit where it is on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from tests.apis.transactional import CONCURRENT, TransactionalProducer, read_committed
from tests.raw_client import RawClient

TWO_PHASE = {"enable2_pc": True, "version": 6}


@pytest.fixture
def producer(client: RawClient, topic: str) -> TransactionalProducer:
    client.create_topic(topic)
    return TransactionalProducer(client)


def test_the_next_producer_gets_the_next_epoch(producer: TransactionalProducer, client: RawClient):
    successor = TransactionalProducer(client, producer.name)
    assert (successor.id, successor.epoch) == (producer.id, producer.epoch + 1)


def test_a_leftover_transaction_is_aborted_first(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    producer.send(topic, b"left over")
    assert producer.initialize(patient=False).error_code == CONCURRENT
    successor = TransactionalProducer(client, producer.name)
    assert successor.epoch == producer.epoch + 2
    assert read_committed(client, topic) == []


def test_a_client_that_names_itself_is_fenced_if_it_is_outdated(producer: TransactionalProducer):
    mine = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    bumped = producer.initialize(**mine)
    assert (bumped.producer_id, bumped.producer_epoch) == (producer.id, producer.epoch + 1)
    assert producer.initialize(**mine).producer_epoch == bumped.producer_epoch, "a repetition"
    producer.initialize()
    assert producer.initialize(**mine).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.initialize(**mine, version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("timeout_ms", [0, -5, 15 * 60_000 + 1])
def test_a_timeout_out_of_bounds_is_refused(producer: TransactionalProducer, timeout_ms: int):
    refused = producer.initialize(timeout_ms=timeout_ms)
    assert refused.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
    assert producer.describe().producer_epoch == producer.epoch, "the producer was not fenced"


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 0}])
def test_half_an_identity_is_an_invalid_request(producer: TransactionalProducer, half: dict[str, int]):
    assert producer.initialize(**half).error_code == ErrorCode.INVALID_REQUEST


def test_fencing_a_producer_ends_its_transaction(
    producer: TransactionalProducer, client: RawClient, topic: str
):
    """As `fenceProducers` of the admin client does it: by becoming its successor."""
    producer.send(topic, b"fenced")
    assert producer.initialize(timeout_ms=1).error_code == 0
    assert producer.end(commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert read_committed(client, topic) == []


def test_version_6_is_not_offered_without_two_phase_commit(client: RawClient):
    offered = {api.api_key: api.max_version for api in client.ask(ApiVersionsRequest(), 0).api_keys}
    assert offered[22] == 5
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    assert client.ask(request, 6).error_code == ErrorCode.UNSUPPORTED_VERSION


# Prepared transactions that outlive their client (KIP-939).


@pytest.fixture(scope="module")
def two_phase_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"transaction.two.phase.commit.enable": "true"}) as broker:
        yield broker


@pytest.fixture
def two_phase_client(two_phase_broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(two_phase_broker.bootstrap_servers) as client:
        yield client


def test_version_6_is_offered_with_two_phase_commit(two_phase_client: RawClient):
    answer = two_phase_client.ask(ApiVersionsRequest(), 0)
    assert {api.api_key: api.max_version for api in answer.api_keys}[22] == 6


def test_a_prepared_transaction_is_committed_with_its_producer_id_and_epoch(
    two_phase_broker: EmbeddedBroker, two_phase_client: RawClient, topic: str
):
    two_phase_client.create_topic(topic)
    with RawClient(two_phase_broker.bootstrap_servers) as worker_connection:
        worker = TransactionalProducer(worker_connection, **TWO_PHASE)
        worker.send(topic, b"prepared")
    worker.client = two_phase_client  # the driver, which got producer id and epoch
    worker.finish(commit=True)
    assert read_committed(two_phase_client, topic) == [b"prepared"]


def test_a_new_client_keeps_a_prepared_transaction_and_ends_it(two_phase_client: RawClient, topic: str):
    two_phase_client.create_topic(topic)
    first = TransactionalProducer(two_phase_client, **TWO_PHASE)
    first.send(topic, b"prepared")
    kept = first.initialize(**TWO_PHASE, keep_prepared_txn=True)
    assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (first.id, first.epoch)
    assert first.end(commit=False).error_code == ErrorCode.PRODUCER_FENCED
    first.id, first.epoch = kept.producer_id, kept.producer_epoch
    first.finish(commit=True)
    assert read_committed(two_phase_client, topic) == [b"prepared"]
    first.send(topic, b"next")
    first.finish(commit=True)
    assert read_committed(two_phase_client, topic) == [b"prepared", b"next"]


def test_a_prepared_transaction_survives_a_restart(tmp_path: Path, topic: str):
    configs = {"transaction.two.phase.commit.enable": "true"}
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=configs) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.create_topic(topic)
        producer = TransactionalProducer(client, **TWO_PHASE)
        producer.send(topic, b"prepared")
    with (
        EmbeddedBroker(data_dir=tmp_path, settings=configs) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert read_committed(client, topic) == []
        producer.client = client
        producer.finish(commit=True)
        assert read_committed(client, topic) == [b"prepared"]
