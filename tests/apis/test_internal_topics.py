"""Only coordinators write to internal topics, and undecodable records there do not keep a coordinator from loading."""

from collections.abc import Iterator

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.records.builder import build_batch
from penstock.records.record import Record
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.apis.requests import end_offset
from tests.broker.controlled import ControlledBroker
from tests.raw_client import RawClient, batch_of

GROUP, TRANSACTION = 0, 1
FORGED = [(b"", b"x"), (b"\x00\x01", b"x"), (b"\x00\x02\x7f\xff", None), (b"hello", b"world"), (None, None)]


@pytest.fixture
def controlled() -> Iterator[ControlledBroker]:
    with ControlledBroker() as controlled:
        yield controlled


@pytest.fixture
def client(controlled: ControlledBroker) -> Iterator[RawClient]:
    with RawClient(controlled.broker.bootstrap_servers) as client:
        for kind in (GROUP, TRANSACTION):
            answer = client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"]), 4)
            assert answer.coordinators[0].error_code == 0
        yield client


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
@pytest.mark.parametrize("client_id", ["raw", "__admin_client"])
def test_clients_cannot_produce_to_an_internal_topic(client: RawClient, topic: str, client_id: str) -> None:
    client.client_id = client_id
    refused = client.produce(topic, batch_of(b"x"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "internal topics" in refused.error_message
    assert end_offset(client, topic) == 0


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_no_transaction_writes_to_an_internal_topic(client: RawClient, topic: str) -> None:
    me = client.ask(InitProducerIdRequest(transactional_id="me", transaction_timeout_ms=1000), 4)
    records = build_batch(
        [Record(0, 1, b"key", b"x")],
        producer_id=me.producer_id,
        producer_epoch=me.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    before = end_offset(client, topic)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(transactional_id="me", acks=-1, timeout_ms=5000, topic_data=[data])
    for version in (11, 12):
        (answer,) = client.ask(request, version).responses[0].partition_responses
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert end_offset(client, topic) == before


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_clients_cannot_delete_records_of_an_internal_topic(client: RawClient, topic: str) -> None:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=0)]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1000
    )
    (answer,) = client.ask(request, 2).topics[0].partitions
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_coordinators_load_although_their_logs_have_undecodable_records(
    controlled: ControlledBroker, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_topic("orders")
    commit(client, "my-group", 5)
    client.ask(InitProducerIdRequest(transactional_id="me", transaction_timeout_ms=1000), 4)

    async def forge_and_load_again() -> None:
        services = controlled.broker.services
        records = build_batch([Record(at, 1, key, value) for at, (key, value) in enumerate(FORGED)])
        for coordinator in (services.coordinators.groups, services.coordinators.transactions):
            for instance in list(coordinator._loaded_shards.values()):
                instance.leader.append_own(records, now_ms=1)
                instance.unload()

    controlled.run(forge_and_load_again)

    assert committed(client, "my-group") == 5
    again = client.ask(InitProducerIdRequest(transactional_id="me", transaction_timeout_ms=1000), 4)
    assert again.error_code == 0
    commit(client, "my-group", 6)
    assert committed(client, "my-group") == 6
    assert f"{CONSUMER_OFFSETS}-" in caplog.text
    assert "skipped the record at offset" in caplog.text


def commit(client: RawClient, group: str, offset: int) -> None:
    topic = OffsetCommitRequestTopic(
        name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    )
    answer = client.ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
    assert answer.topics[0].partitions[0].error_code == 0


def committed(client: RawClient, group: str) -> int:
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    answer = client.ask(OffsetFetchRequest(groups=[asked]), 8)
    assert answer.groups[0].error_code == 0
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)
