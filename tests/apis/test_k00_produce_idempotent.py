"""Produce by idempotent producers: sequences, duplicates, epochs, expiry."""

from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.records.compression import Codec
from tests.apis.requests import end_offset, new_producer_id
from tests.raw_client import RawClient, batch_of


class Producer:
    """An idempotent producer that may send anything."""

    def __init__(self, client: RawClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.id = new_producer_id(client)

    def send(self, sequence: int, *, count: int = 1, epoch: int = 0, **fields: Any):
        batch = batch_of(
            *[b"x"] * count,
            producer_id=self.id,
            producer_epoch=epoch,
            base_sequence=sequence,
            **fields,
        )
        return self.client.produce(self.topic, batch)


@pytest.fixture
def producer(client: RawClient, topic: str) -> Producer:
    client.create_topic(topic)
    return Producer(client, topic)


def test_a_duplicate_is_answered_with_the_first_offset_and_not_written(producer: Producer):
    assert producer.send(0, count=3).base_offset == 0
    assert producer.send(3).base_offset == 3
    again = producer.send(0, count=3)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert end_offset(producer.client, producer.topic) == 4


def test_a_gap_is_refused_as_out_of_order(producer: Producer):
    producer.send(0)
    refused = producer.send(2)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert producer.send(1).base_offset == 1, "and the one that was missing is still taken"


def test_the_last_five_batches_are_recognised_and_no_more(producer: Producer):
    for sequence in range(6):
        producer.send(sequence)
    assert [producer.send(sequence).base_offset for sequence in range(1, 6)] == [1, 2, 3, 4, 5]
    assert producer.send(0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert end_offset(producer.client, producer.topic) == 6


def test_a_batch_that_overlaps_without_being_the_same_is_refused(producer: Producer):
    producer.send(0, count=3)
    assert producer.send(1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(0, count=2).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_fenced_and_a_new_one_starts_at_0(producer: Producer):
    producer.send(0)
    assert producer.send(5, epoch=1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(0, epoch=1).error_code == 0
    assert producer.send(1, epoch=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_after_the_largest_number(producer: Producer):
    assert producer.send(2**31 - 2, count=2).error_code == 0
    assert producer.send(0).error_code == 0
    assert producer.send(2**31 - 2, count=2).base_offset == 0


def test_producers_do_not_disturb_each_other(client: RawClient, topic: str):
    client.create_topic(topic)
    one, two = Producer(client, topic), Producer(client, topic)
    assert [one.send(0).base_offset, two.send(0).base_offset] == [0, 1]
    assert [one.send(1).base_offset, two.send(0).base_offset] == [2, 1]


def test_each_partition_has_its_own_sequence_numbers(client: RawClient, topic: str):
    client.create_topic(topic, partitions=2)
    producer_id = new_producer_id(client)
    batch = batch_of(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    for partition in (0, 1):
        assert client.produce(topic, batch, partition=partition).base_offset == 0
        assert client.produce(topic, batch, partition=partition).base_offset == 0
        assert end_offset(client, topic, partition) == 1


def test_a_duplicate_is_recognised_where_the_broker_changes_the_batch(client: RawClient, topic: str):
    client.create_topic(topic, compression_type="zstd", message_timestamp_type="LogAppendTime")
    producer = Producer(client, topic)
    first = producer.send(0, codec=Codec.LZ4)
    again = producer.send(0, codec=Codec.LZ4)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert again.log_append_time_ms == first.log_append_time_ms
    assert end_offset(client, topic) == 1
