"""Questions for transaction coordinators on other brokers: AddPartitionsToTxn, v4 and later."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.errors import error_code
from penstock.cluster.peers import Peers
from penstock.core.transactions.transaction import ProducerIdAndEpoch, by_topic
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

# The coordinator's metadata lag behind: they lack a topic that has a leader already.
_METADATA_LAGS: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED)

# The result for each partition.
Codes: TypeAlias = dict[TopicPartition, ErrorCode]


class Question(NamedTuple):
    """Partitions to be added to a transaction of a version 2 client, or verified for an older one."""

    transactional_id: str
    identity: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    verify_only: bool

    def all(self, code: ErrorCode) -> Codes:
        """The same code for every partition."""
        return dict.fromkeys(sorted(self.partitions), code)


async def add_partitions(peers: Peers, coordinator: int, questions: Sequence[Question]) -> list[Codes]:
    """Have a coordinator add partitions to transactions, or verify them (v4 and later, as brokers ask)."""
    answer = await peers.ask(coordinator, questions_request(questions), AddPartitionsToTxnResponse)
    if answer.error_code:
        return [question.all(error_code(answer.error_code)) for question in questions]
    by_id = {result.transactional_id: result.topic_results for result in answer.results_by_transaction}
    answered: list[Codes] = []
    for question in questions:
        codes = question.all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for topic in by_id.get(question.transactional_id, ()):
            for result in topic.results_by_partition:
                code = error_code(result.partition_error_code)
                codes[TopicPartition(topic.name, result.partition_index)] = (
                    ErrorCode.COORDINATOR_NOT_AVAILABLE if code in _METADATA_LAGS else code
                )
        answered.append(codes)
    return answered


def questions_request(questions: Sequence[Question]) -> AddPartitionsToTxnRequest:
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
