"""Transactions, one after the other by each of many producers.

`commit_raw` sends what a client of Kafka 4 sends for a transaction of one small record: Produce v12, which adds the
partition, and EndTxn v5, which hands out the next epoch. `commit_with_librdkafka` is that library's own producer.
"""

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Producer

from bench.load.coordinators import TRANSACTION, find_coordinator, insist
from bench.load.frames import ACKS_ALL, TIMEOUT_MS
from bench.load.raw import LoadError
from bench.load.talks import Question, Talk, hold
from penstock.base.errors import ErrorCode
from penstock.records.builder import build_batch
from penstock.records.record import Record
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_INIT_VERSION = 5
_PRODUCE_VERSION = 12
_END_VERSION = 5
_VALUE = bytes(100)
_PATIENCE_S = 30

_numbers = itertools.count()


class Committed(NamedTuple):
    """How many transactions were committed, in which time, and what sending them cost."""

    transactions: int
    seconds: float
    client_cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.transactions / self.seconds


class _Identity(NamedTuple):
    """A producer as its coordinator knows it."""

    transactional_id: str
    producer_id: int
    epoch: int


def commit_raw(bootstrap: str, topic: str, *, producers: int, partitions: int, seconds: float) -> Committed:
    """All producers at once, each with a connection of its own and one partition of the topic."""
    run = next(_numbers)
    names = [f"{topic}-{run}-{number}" for number in range(producers)]
    identities = hold(bootstrap, [_begin(name) for name in names])
    cpu_before, started = time.process_time(), time.perf_counter()
    counts = hold(
        bootstrap,
        [
            _commit_until(started + seconds, identity, topic, number % partitions)
            for number, identity in enumerate(identities)
        ],
    )
    return Committed(sum(counts), time.perf_counter() - started, time.process_time() - cpu_before)


def _begin(transactional_id: str) -> Talk[_Identity]:
    yield from find_coordinator(TRANSACTION, transactional_id)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
    question = Question(request, _INIT_VERSION, InitProducerIdResponse)
    answer = yield from insist(question, lambda answer: answer.error_code)
    return _Identity(transactional_id, answer.producer_id, answer.producer_epoch)


def _commit_until(end: float, identity: _Identity, topic: str, partition: int) -> Talk[int]:
    count = 0
    while time.perf_counter() < end:
        identity = yield from _transaction(identity, topic, partition)
        count += 1
    return count


def _transaction(identity: _Identity, topic: str, partition: int) -> Talk[_Identity]:
    name, producer_id, epoch = identity
    produce = ProduceRequest(
        transactional_id=name,
        acks=ACKS_ALL,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=_batch(producer_id, epoch))],
            )
        ],
    )
    yield from _until_the_last_has_ended(
        Question(produce, _PRODUCE_VERSION, ProduceResponse),
        lambda answer: answer.responses[0].partition_responses[0].error_code,
    )
    end = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)
    answer = yield from _until_the_last_has_ended(
        Question(end, _END_VERSION, EndTxnResponse), lambda answer: answer.error_code
    )
    return _Identity(name, answer.producer_id, answer.producer_epoch)


def _batch(producer_id: int, epoch: int) -> bytes:
    record = Record(0, int(time.time() * 1000), None, _VALUE, ())
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
    )


def _until_the_last_has_ended(question: Question, code_of: Callable[..., int]) -> Talk[EndTxnResponse]:
    """Ask again, at once, while the markers of the transaction before are still being written."""
    while True:
        answer = yield question
        code = code_of(answer)
        if not code:
            return answer
        if code != ErrorCode.CONCURRENT_TRANSACTIONS:
            raise LoadError(f"{type(question.request).__name__} was answered {ErrorCode(code).name}")


def commit_with_librdkafka(bootstrap: str, topic: str, *, seconds: float) -> Committed:
    """One producer, a record in each transaction."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"{topic}-librdkafka-{next(_numbers)}",
            "linger.ms": 0,
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions(_PATIENCE_S)
    _commit_one(producer, topic)
    count = 0
    cpu_before, started = time.process_time(), time.perf_counter()
    while time.perf_counter() < started + seconds:
        _commit_one(producer, topic)
        count += 1
    return Committed(count, time.perf_counter() - started, time.process_time() - cpu_before)


def _commit_one(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, _VALUE, partition=0)
    producer.commit_transaction(_PATIENCE_S)
