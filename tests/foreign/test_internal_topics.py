"""The internal topics: Apache Kafka's decoders read what we write, and we read what a real Kafka wrote."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from peers.brokers import Broker
from peers.kafka import DUMP_LOG_SEGMENTS, run_tool
from penstock.base.ids import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.records.batch import headers
from penstock.records.internal import group_records, transaction_records
from penstock.records.internal.group_shapes import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.records.internal.record import InternalRecord, RecordFormat
from penstock.records.internal.transaction_shapes import TransactionLogKey, TransactionLogValue
from penstock.records.record import read_records
from tests.foreign.target import new_kafka

pytestmark = [pytest.mark.foreign, pytest.mark.needs("kafka"), pytest.mark.xdist_group("kafka")]

TIMEOUT_S = 60.0
LIMIT = 1 << 24


def use_groups_and_transactions(broker: Broker) -> None:
    """A classic group, a group of the consumer protocol, both with a committed offset; a committed transaction."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "moved"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("read", b"one")
    producer.commit_transaction(TIMEOUT_S)
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": f"{protocol}-group",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["read"])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == b"one"
        consumer.commit(offsets=[Position("read", 0, 1, metadata="note")], asynchronous=False)
        consumer.close()


def records_of(data: Path, topic: str, record_format: RecordFormat) -> list[InternalRecord]:
    found = []
    for file in sorted(data.glob(f"{topic}-*/*.log")):
        content = file.read_bytes()
        for position, header in headers(content):
            if header.is_control:
                continue
            for record in read_records(content[position : position + header.size], limit=LIMIT):
                assert record.key is not None
                decoded = record_format.decode(record.key, record.value)
                assert decoded is not None
                assert record_format.encode(decoded) == (record.key, record.value), "the same bytes again"
                found.append(decoded)
    return found


def test_we_read_what_kafka_wrote_and_would_write_the_same_bytes() -> None:
    with new_kafka() as kafka:
        use_groups_and_transactions(kafka)
        kafka.stop()
        offsets = records_of(kafka.data, CONSUMER_OFFSETS, group_records.GROUP_RECORDS)
        transactions = records_of(kafka.data, TRANSACTION_STATE, transaction_records.TRANSACTION_RECORDS)
    expect_groups(offsets)
    states = [
        value.transaction_status
        for key, value in transactions
        if isinstance(value, TransactionLogValue) and key == TransactionLogKey(transactional_id="moved")
    ]
    assert states[-1] == 4, "complete, and committed"


def expect_groups(records: list[InternalRecord]) -> None:
    committed = {
        key.group: (value.offset, value.metadata.rstrip("\0"))  # librdkafka sends its C string whole
        for key, value in records
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue)
    }
    assert committed == {"classic-group": (1, "note"), "consumer-group": (1, "note")}
    generations = [
        value.generation
        for key, value in records
        if key == GroupMetadataKey(group="classic-group") and isinstance(value, GroupMetadataValue)
    ]
    assert generations == sorted(generations)
    assert max(generations) >= 1
    kinds = {type(key) for key, _ in records}
    assert {
        ConsumerGroupMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
    } <= kinds


def test_kafkas_decoders_read_what_we_write(own_broker: Broker) -> None:
    use_groups_and_transactions(own_broker)
    own_broker.stop()
    expect_groups(records_of(own_broker.data, CONSUMER_OFFSETS, group_records.GROUP_RECORDS))
    offsets = dump(own_broker.data, CONSUMER_OFFSETS, "--offsets-decoder")
    for expected in (
        '"group":"classic-group","topic":"read","partition":0',
        '"protocolType":"consumer"',
        '"offset":1',
        '"metadata":"note',
        '"groupId":"consumer-group"',
    ):
        assert expected in offsets, expected
    transactions = dump(own_broker.data, TRANSACTION_STATE, "--transaction-log-decoder")
    assert "moved" in transactions
    assert '"transactionStatus":4' in transactions, "complete, and committed"


def dump(data: Path, topic: str, decoder: str) -> str:
    files = [str(file) for file in sorted(data.glob(f"{topic}-*/*.log")) if file.stat().st_size]
    assert files, f"nothing was written to {topic}"
    shown = run_tool(DUMP_LOG_SEGMENTS, "--files", ",".join(files), decoder, "--deep-iteration").stdout
    assert "Exception" not in shown
    assert "isvalid: false" not in shown
    return shown
