"""A transactional producer that can send any request in any order, and a read_committed consumer."""

import itertools
import time
from typing import Any, Protocol

from penstock.base.errors import ErrorCode
from penstock.records.batch import headers
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest
from penstock.wire.messages.end_txn import EndTxnRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.apis.requests import values_in
from tests.raw_client import batch_of, fetch_request, produce_request

TRANSACTION = 1
GROUP = 0
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
READ_COMMITTED = 1
PATIENCE_S = 60

_NO_COORDINATOR = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
_TRY_AGAIN = (CONCURRENT, *_NO_COORDINATOR)

_numbers = itertools.count()


class Asks(Protocol):
    """Any connection to any broker on which requests are asked."""

    def ask(self, request: Any, version: int) -> Any: ...


def find_coordinator(client: Asks, key: str, key_type: int) -> None:
    """Ask until there is one: the first to ask has the internal topic created."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    deadline_s = time.monotonic() + PATIENCE_S
    while client.ask(request, 4).coordinators[0].error_code:
        assert time.monotonic() < deadline_s


class TransactionalProducer:
    """Remembers who it is, and leaves it to the test what it does with that."""

    timestamp = 1_000  # of the records

    def __init__(
        self, client: Asks, name: str | None = None, *, timeout_ms: int = 60_000, **options: Any
    ) -> None:
        self.client = client
        self.name = name or f"transactional-{next(_numbers)}"
        find_coordinator(client, self.name, TRANSACTION)
        answer = self.initialize(timeout_ms=timeout_ms, **options)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def initialize(
        self, *, timeout_ms: int = 60_000, version: int = 5, patient: bool = True, **fields: Any
    ) -> Any:
        """InitProducerId, asked again while an old transaction is being aborted."""
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms, **fields
        )
        return self.patiently(request, version) if patient else self.client.ask(request, version)

    def patiently(self, request: Any, version: int) -> Any:
        deadline_s = time.monotonic() + PATIENCE_S
        while (answer := self.client.ask(request, version)).error_code in _TRY_AGAIN:
            assert time.monotonic() < deadline_s
        return answer

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        """AddPartitionsToTxn, as a client; the error of each partition."""
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))]
        answer = self.client.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            ),
            version,
        )
        return _errors(answer.results_by_topic_v3_and_below)

    def add_as_broker(self, topic: str, *partitions: int, verify_only: bool = False) -> list[int]:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))],
        )
        answer = self.client.ask(AddPartitionsToTxnRequest(transactions=[transaction]), 5)
        assert answer.results_by_transaction[0].transactional_id == self.name
        return _errors(answer.results_by_transaction[0].topic_results)

    def add_offsets(self, group: str, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, group_id=group
        )
        return int(self.client.ask(request, version).error_code)

    def send(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        sequence: int = 0,
        version: int = 12,
        **fields: Any,
    ) -> Any:
        """Produce a transactional batch; the partition's answer."""
        batch = batch_of(
            *(values or (b"x",)),
            producer_id=fields.pop("producer_id", self.id),
            producer_epoch=fields.pop("epoch", self.epoch),
            base_sequence=sequence,
            transactional=True,
            timestamp=self.timestamp,
        )
        request = produce_request(topic, batch, partition=partition)
        request.transactional_id = self.name
        answer = self.client.ask(request, version)
        return answer.responses[0].partition_responses[0]

    def end(self, *, commit: bool, version: int = 5, epoch: int | None = None) -> Any:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        return self.client.ask(request, version)

    def finish(self, *, commit: bool, version: int = 5) -> None:
        """End the transaction, and come back when its markers are written."""
        answer = self.end(commit=commit, version=version)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        if version >= 5:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.wait_for("Complete")

    def wait_for(self, state: str) -> None:
        """Come back when the transaction's state begins with these letters."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not self.describe().transaction_state.startswith(state):
            assert time.monotonic() < deadline_s

    def commit_offset(
        self, group: str, topic: str, offset: int, *, partition: int = 0, version: int = 5, **fields: Any
    ) -> int:
        """TxnOffsetCommit; the partition's error."""
        asked = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[asked])],
            **fields,
        )
        deadline_s = time.monotonic() + PATIENCE_S
        while (code := self._ask_to_commit(request, version)) in _NO_COORDINATOR:
            assert time.monotonic() < deadline_s
        return code

    def _ask_to_commit(self, request: TxnOffsetCommitRequest, version: int) -> int:
        return int(self.client.ask(request, version).topics[0].partitions[0].error_code)

    def describe(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        return self.client.ask(request, 0).transaction_states[0]


def fetch_committed(client: Asks, topic: str, offset: int = 0, *, partition: int = 0, **options: Any) -> Any:
    """The partition's answer to a reader of committed records."""
    request = fetch_request(topic, offset, partition=partition, **options)
    request.isolation_level = READ_COMMITTED
    return client.ask(request, 12).responses[0].partitions[0]


def read_committed(client: Asks, topic: str, *, partition: int = 0) -> list[bytes | None]:
    """Every committed value, as a client leaves out aborted ones and markers."""
    values: list[bytes | None] = []
    offset = 0
    while True:
        answer = fetch_committed(client, topic, offset, partition=partition)
        assert answer.error_code == 0, (ErrorCode(answer.error_code), offset)
        if not answer.records:
            return values
        coming = sorted(answer.aborted_transactions, key=lambda entry: entry.first_offset)
        aborted: set[int] = set()
        for position, header in headers(answer.records):
            while coming and coming[0].first_offset <= header.last_offset:
                aborted.add(coming.pop(0).producer_id)
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                values += values_in(answer.records[position : position + header.size])
            offset = header.next_offset


def _errors(topics: list[Any]) -> list[int]:
    codes = {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in topics
        for result in topic.results_by_partition
    }
    return [codes[where] for where in sorted(codes)]
