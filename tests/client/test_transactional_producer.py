"""Transactions from our own client, against a whole broker, and telling aborted batches from the rest."""

from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, NoAnswerError
from penstock.client.fetch import Aborted, read_batches, read_fetched
from penstock.client.fetcher import Fetcher
from penstock.client.group_offsets import GroupOffset, committed_offsets
from penstock.client.offsets import LATEST, find_offsets
from penstock.client.produce import produce
from penstock.client.producer import NewRecord
from penstock.client.topics import NewTopic, create_topics
from penstock.client.transactional_producer import FencedError, TransactionalProducer
from penstock.client.transactions import describe_transactions, fence_producer, list_transactions
from penstock.records.batch import read_header
from penstock.records.builder import build_batch
from penstock.records.control import Marker, MarkerType, build_marker
from penstock.records.record import Record


async def read_committed(client: Client, topic: str, *, upto: int) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    fetcher = Fetcher(client, {partition: 0}, committed_only=True)
    values: list[bytes] = []
    while fetcher.positions[partition] < upto:
        for fetched in await fetcher.poll():
            for header, batch in read_batches(fetched):
                position = fetcher.positions[partition]
                values += [
                    record.value or b"" for record in read_fetched(batch, header, from_offset=position)
                ]
                fetcher.advance(partition, header.next_offset)
    await fetcher.close()
    return values


@pytest.mark.parametrize("own_epochs", [True, False], ids=["version 2", "version 1"])
def test_only_committed_transactions_are_seen(
    blocking: BlockingClient, topic: str, own_epochs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not own_epochs:
        monkeypatch.setattr("penstock.client.transaction_steps.FEATURE", "no.such.feature")

    async def story(client: Client) -> None:
        await create_topics(client, [NewTopic(topic, 1, 1)])
        producer = TransactionalProducer(client, topic)
        await producer.start()
        epoch = producer.producer_epoch
        for number in range(6):
            producer.begin()
            await producer.send(topic, [NewRecord(None, b"%d" % number)])
            await producer.send_offsets(topic, {TopicPartition(topic, 0): GroupOffset(number)})
            await (producer.commit() if number % 2 else producer.abort())
        assert (producer.producer_epoch > epoch) is own_epochs
        producer.begin()
        await producer.commit()  # an empty transaction: no EndTxn is sent
        assert await read_committed(client, topic, upto=12) == [b"1", b"3", b"5"]
        assert await committed_offsets(client, topic, stable=True) == {
            TopicPartition(topic, 0): GroupOffset(5)
        }

        producer.begin()
        await producer.send(topic, [NewRecord(None, b"open")])
        assert await find_offsets(client, {TopicPartition(topic, 0): LATEST}) == {
            TopicPartition(topic, 0): 13
        }
        assert await find_offsets(client, {TopicPartition(topic, 0): LATEST}, committed_only=True) == {
            TopicPartition(topic, 0): 12
        }
        listed = await list_transactions(client, states=["Ongoing"])
        assert topic in [each.transactional_id for each in listed]
        described = (await describe_transactions(client, [topic]))[topic]
        assert getattr(described, "partitions", ()) == (TopicPartition(topic, 0),)
        await producer.abort()

    blocking.run(story(blocking.client))


def test_a_producer_whose_id_was_taken_over_can_do_nothing_any_more(
    blocking: BlockingClient, topic: str
) -> None:
    async def story(client: Client) -> None:
        await create_topics(client, [NewTopic(topic, 1, 1)])
        old = TransactionalProducer(client, topic)
        await old.start()
        old.begin()
        await old.send(topic, [NewRecord(None, b"old")])
        await fence_producer(client, topic)
        with pytest.raises(AnsweredError) as refused:
            await old.commit()
        assert refused.value.refusal.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        with pytest.raises(FencedError, match="taken over by another producer"):
            await old.abort()
        new = TransactionalProducer(client, topic)
        await new.start()
        new.begin()
        await new.send(topic, [NewRecord(None, b"new")])
        await new.commit()
        assert await read_committed(client, topic, upto=4) == [b"new"]

    blocking.run(story(blocking.client))


@pytest.mark.parametrize("own_epochs", [True, False], ids=["version 2", "version 1"])
def test_after_an_unknown_outcome_the_next_transaction_is_not_taken_for_this_one(
    blocking: BlockingClient, topic: str, own_epochs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not own_epochs:
        monkeypatch.setattr("penstock.client.transaction_steps.FEATURE", "no.such.feature")

    async def send_and_lose_the_answer(*words: Any, **more: Any) -> None:
        await produce(*words, **more)
        raise NoAnswerError("the answer is lost")

    async def story(client: Client) -> None:
        await create_topics(client, [NewTopic(topic, 1, 1)])
        producer = TransactionalProducer(client, topic)
        await producer.start()
        producer.begin()
        with monkeypatch.context() as patch:
            patch.setattr("penstock.client.producer.produce", send_and_lose_the_answer)
            with pytest.raises(NoAnswerError):
                await producer.send(topic, [NewRecord(None, b"lost")])
        await producer.abort()
        producer.begin()
        await producer.send(topic, [NewRecord(None, b"kept")])
        await producer.commit()
        assert await read_committed(client, topic, upto=4) == [b"kept"]

    blocking.run(story(blocking.client))


def test_only_batches_of_aborted_transactions_are_recognised_as_aborted() -> None:
    def batch(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
        return build_batch(
            [Record(offset, 0, None, b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )

    def marker(type_: MarkerType, producer_id: int) -> bytes:
        return build_marker(Marker(type_, producer_id, 0, 0), timestamp=0)

    aborted = Aborted([(5, 1), (0, 2)])
    log = [
        (batch(0, 2), True),
        (batch(1, 1), False),  # its aborted transaction begins later
        (batch(2, 2), True),
        (batch(3, 2, transactional=False), False),
        (marker(MarkerType.ABORT, 2), False),
        (batch(4, 2), False),  # the next transaction of the same producer
        (batch(5, 1), True),
        (marker(MarkerType.COMMIT, 2), False),
        (batch(6, 1), True),
        (marker(MarkerType.ABORT, 1), False),
        (batch(8, 1), False),
    ]
    hidden = [aborted.hides(read_header(data), memoryview(data)) for data, _ in log]
    assert hidden == [expected for _, expected in log]
