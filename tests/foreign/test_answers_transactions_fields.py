"""Answers of the transactions' APIs, field by field beside Apache Kafka's, in every version both offer."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.schema.words import Message
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest
from penstock.wire.messages.end_txn import EndTxnRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.apis.transactional import GROUP, TRANSACTION, TransactionalProducer, find_coordinator
from tests.foreign.asking import NOW_MS, create
from tests.foreign.wire_peer import Pair, Peer, expect_equal, plain

pytestmark = [pytest.mark.foreign, pytest.mark.xdist_group("kafka")]


class OfToday(TransactionalProducer):
    timestamp = NOW_MS


def coordinated(pair: Pair, *, transactional_id: str, group: str) -> None:
    """Both brokers have the coordinators that the requests are for."""
    for peer in (pair.kafka, pair.broker):
        find_coordinator(peer, transactional_id, TRANSACTION)
        find_coordinator(peer, group, GROUP)
        OfToday(peer, transactional_id)


def same_in_versions(pair: Pair, request: Message | Callable[[Peer], Message], versions: range) -> None:
    for version in versions:
        pair.same(request, version)


def test_unknown_ids_and_members(pair: Pair, topic: str) -> None:
    create(pair, topic)
    known, unknown = f"known-{topic}", f"unknown-{topic}"
    coordinated(pair, transactional_id=known, group=f"group-{topic}")
    topics = [
        AddPartitionsToTxnTopic(name=topic, partitions=[0]),
        AddPartitionsToTxnTopic(name="no", partitions=[7]),
    ]
    for name in (known, unknown, ""):
        same_in_versions(
            pair,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=10**9,
                v3_and_below_producer_epoch=3,
                v3_and_below_topics=topics,
            ),
            range(4),
        )
        whose: dict[str, Any] = {"transactional_id": name, "producer_id": 10**9, "producer_epoch": 3}
        same_in_versions(pair, AddOffsetsToTxnRequest(**whose, group_id=f"group-{topic}"), range(5))
        same_in_versions(pair, EndTxnRequest(**whose, committed=True), range(6))
        init = InitProducerIdRequest(transaction_timeout_ms=1000, **whose)
        same_in_versions(pair, init, range(3, 6))


def test_ids_that_are_empty_or_halved(pair: Pair) -> None:
    same_in_versions(pair, InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), range(6))
    halved = InitProducerIdRequest(transactional_id="halved", transaction_timeout_ms=1000, producer_epoch=1)
    same_in_versions(pair, halved, range(3, 6))


def test_transactional_offset_commits_without_a_known_producer_or_member(pair: Pair, topic: str) -> None:
    create(pair, topic)
    known, group = f"known-{topic}", f"group-{topic}"
    coordinated(pair, transactional_id=known, group=group)
    partitions = [
        TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata=metadata
        )
        for index, metadata in ((0, ""), (0, None), (5, ""), (0, "x" * 5000))
    ]
    for members in (
        {},
        {"member_id": "nobody", "generation_id": 3},
        {"group_instance_id": "nobody", "member_id": "x"},
    ):
        request = TxnOffsetCommitRequest(
            transactional_id=known,
            group_id=group,
            producer_id=10**9,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=partitions) for name in (topic, "no-such")
            ],
            **members,
        )
        same_in_versions(pair, request, range(3, 6) if members else range(6))


def test_markers_for_what_is_not_there(pair: Pair, topic: str) -> None:
    create(pair, topic)
    marker = WritableTxnMarker(
        producer_id=10**9,
        producer_epoch=0,
        transaction_result=False,  # only brokers commit here
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=[0, 5]) for name in (topic, "no-such-topic")
        ],
    )
    same_in_versions(pair, WriteTxnMarkersRequest(markers=[marker]), range(1, 3))


def test_descriptions(pair: Pair, topic: str) -> None:
    """A transaction that is open on both, each with ids of its own."""
    create(pair, topic, partitions=2)
    name = f"described-{topic}"
    producers = {peer: OfToday(peer, name) for peer in (pair.kafka, pair.broker)}
    for producer in producers.values():
        producer.send(topic)
        producer.send(topic, partition=1)

    def compare(
        request: Callable[[TransactionalProducer], Message], version: int, *of_their_own: str
    ) -> None:
        answers = [plain(peer.ask(request(producer), version), peer) for peer, producer in producers.items()]
        expect_equal(*(without(answer, *of_their_own) for answer in reversed(answers)))

    described = DescribeTransactionsRequest(transactional_ids=[name, "not-there", ""])
    compare(lambda producer: described, 0, "transaction_start_time_ms")
    writing = DescribeProducersRequest(
        topics=[
            TopicRequest(name=topic, partition_indexes=[0, 1, 9]),
            TopicRequest(name="no", partition_indexes=[0]),
        ]
    )
    compare(lambda producer: writing, 0, "last_timestamp")
    for version in range(3):
        compare(lambda producer: ListTransactionsRequest(producer_id_filters=[producer.id]), version)
    for fields in (
        {"duration_filter": 10**9},
        {"state_filters": ["CompleteAbort", "Nonsense"]},
        {"transactional_id_pattern": f"described-{topic[:8]}.*"},
        {"transactional_id_pattern": "("},
    ):
        compare(
            lambda producer, fields=fields: ListTransactionsRequest(  # type: ignore[misc]
                producer_id_filters=[producer.id], **fields
            ),
            2,
        )


def without(answer: Any, *fields: str) -> Any:
    """The answer without these fields, its plain lists in order: Kafka has none in them."""
    if isinstance(answer, dict):
        return {name: without(value, *fields) for name, value in answer.items() if name not in fields}
    if isinstance(answer, list):
        return sorted((without(each, *fields) for each in answer), key=repr)
    return answer
