"""The steps of a transaction, one request each, for callers that combine them themselves.
InitProducerId v0-v6, AddPartitionsToTxn v0-v3, EndTxn v0-v5.

Most callers use `transactional_producer`; Spark's sink starts a transaction in one process and ends it in another.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.cluster import CoordinatorKind
from penstock.client.coordinators import ask_coordinator
from penstock.client.errors import raise_if_refused
from penstock.client.topics import by_topic
from penstock.records.batch import NO_PRODUCER
from penstock.records.builder import NO_EPOCH
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FEATURE: Final = "transaction.version"
_OWN_EPOCHS: Final = (
    2  # the level of transaction.version from which on every transaction has its own epoch (KIP-890)
)

# The newest versions for clusters below that level; newer ones imply it.
OLD_PRODUCE: Final = 11
_OLD_END: Final = 4
_LAST_ADD_BY_CLIENTS: Final = 3
_TWO_PHASE_SINCE: Final = 6
_NO_TIMEOUT_MS: Final = 2**31 - 1


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


NO_IDENTITY: Final = ProducerIdentity(NO_PRODUCER, NO_EPOCH)


async def has_own_epochs(client: Client) -> bool:
    """Whether every transaction has its own epoch, and produce requests add partitions to it (KIP-890)."""
    connection = await client.any_connection()
    return connection.features.get(FEATURE, 0) >= _OWN_EPOCHS


async def offers_two_phase(client: Client) -> bool:
    """Whether the cluster has two-phase commit (KIP-939), which its settings may still refuse."""
    connection = await client.any_connection()
    return connection.versions.pick(InitProducerIdRequest) >= _TWO_PHASE_SINCE


async def new_identity(client: Client) -> ProducerIdentity:
    """A new producer id without transactions; NO_IDENTITY where the broker has no InitProducerId."""

    async def attempt() -> ProducerIdentity:
        connection = await client.any_connection()
        if not connection.versions.offers(InitProducerIdRequest):
            return NO_IDENTITY
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT_MS)
        answer = await connection.ask(request, InitProducerIdResponse)
        raise_if_refused(answer.error_code, None, "get a producer id")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    return await client.retry(attempt)


async def take_over(
    client: Client, transactional_id: str, *, timeout_ms: int, two_phase: bool = False
) -> ProducerIdentity:
    """InitProducerId: the previous producer of this transactional id is fenced, and its open transaction aborted."""
    answer = await ask_coordinator(
        client,
        CoordinatorKind.TRANSACTION,
        transactional_id,
        InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, enable2_pc=two_phase
        ),
        InitProducerIdResponse,
        code_of=lambda answer: answer.error_code,
        about=f"start transactional id {transactional_id!r}",
    )
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


async def add_partitions(
    client: Client, transactional_id: str, identity: ProducerIdentity, partitions: Collection[TopicPartition]
) -> None:
    """Add partitions to the transaction before they are written to; needed only below `transaction.version` 2."""

    def code_of(answer: AddPartitionsToTxnResponse) -> int:
        codes = (
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        )
        return next((code for code in codes if code), 0)

    await ask_coordinator(
        client,
        CoordinatorKind.TRANSACTION,
        transactional_id,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(sorted(partitions)).items()
            ],
        ),
        AddPartitionsToTxnResponse,
        code_of=code_of,
        about=f"add partitions to the transaction of {transactional_id!r}",
        version_max=_LAST_ADD_BY_CLIENTS,
    )


async def end(
    client: Client, transactional_id: str, identity: ProducerIdentity, *, committed: bool, own_epochs: bool
) -> ProducerIdentity:
    """Commit or abort, from any connection; repeating it changes nothing. Returns the producer's next id and epoch."""
    answer = await ask_coordinator(
        client,
        CoordinatorKind.TRANSACTION,
        transactional_id,
        EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=committed,
        ),
        EndTxnResponse,
        code_of=lambda answer: answer.error_code,
        about=f"{'commit' if committed else 'abort'} the transaction of {transactional_id!r}",
        version_max=None if own_epochs else _OLD_END,
    )
    return (
        ProducerIdentity(answer.producer_id, answer.producer_epoch) if answer.producer_id >= 0 else identity
    )
