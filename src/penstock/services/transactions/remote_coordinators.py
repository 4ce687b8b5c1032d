"""Asking a transaction coordinator on another broker: AddPartitionsToTxn as brokers send it, v4 and later."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.errors import error_code
from penstock.cluster.peers import Peers
from penstock.core.transactions.transaction import ProducerIdAndEpoch, by_topic
from penstock.services.transactions.outboxes import Outboxes
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.world import World

_TRANSACTIONS_MAX: Final = 500
_REQUESTS_MAX: Final = 5

# The coordinator has not heard of a topic that has a leader already.
_METADATA_LAGS: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED)

# What became of each partition.
Codes = dict[TopicPartition, ErrorCode]


class Question(NamedTuple):
    """Partitions to be added to a transaction of a version 2 client, or verified for an older one."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    verify_only: bool

    def all(self, code: ErrorCode) -> Codes:
        """The same code for every partition."""
        return dict.fromkeys(sorted(self.partitions), code)


class RemoteCoordinators:
    """Asks the brokers that look after transactional ids."""

    def __init__(self, world: World, peers: Peers) -> None:
        self._peers = peers
        self._outboxes: Outboxes[Question, Codes | None] = Outboxes(
            world,
            self._ask,
            key=lambda question: question.transactional_id,
            unanswered=None,
            items_max=_TRANSACTIONS_MAX,
            requests_max=_REQUESTS_MAX,
        )

    async def ask(self, coordinator: int, question: Question) -> Codes:
        """COORDINATOR_NOT_AVAILABLE where there is no answer, so that it is asked again."""
        codes = await self._outboxes.put(coordinator, question)
        return codes or question.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def stop(self) -> None:
        await self._outboxes.stop()

    async def _ask(self, coordinator: int, questions: Sequence[Question]) -> list[Codes | None]:
        answer = await self._peers.ask(coordinator, request_for(questions), AddPartitionsToTxnResponse)
        if answer.error_code:
            return [question.all(error_code(answer.error_code)) for question in questions]
        by_id = {result.transactional_id: result.topic_results for result in answer.results_by_transaction}
        answered: list[Codes | None] = []
        for question in questions:
            codes = question.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            for topic in by_id.get(question.transactional_id, ()):
                for result in topic.results_by_partition:
                    where = TopicPartition(topic.name, result.partition_index)
                    codes[where] = _told(error_code(result.partition_error_code))
            answered.append(codes)
        return answered


def _told(code: ErrorCode) -> ErrorCode:
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _METADATA_LAGS else code


def request_for(questions: Sequence[Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.identity.producer_id,
                producer_epoch=question.identity.epoch,
                verify_only=question.verify_only,
                topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(question.partitions).items()
                ],
            )
            for question in questions
        ]
    )
