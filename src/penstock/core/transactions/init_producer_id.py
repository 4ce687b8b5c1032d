"""InitProducerId: a producer takes over a transactional id, and the producer that had it before is fenced.

The response, by the state of the id:

    unknown                     the spare producer id, epoch 0
    no transaction open         the same producer id with the next epoch; after 32,766 of them a new id with epoch 0
    a transaction is open       it is aborted under a new epoch, and the response is CONCURRENT_TRANSACTIONS: the client
                                retries until the abort is complete
    ... and is to be kept       the next epoch for the client, which can then only end it (two-phase commit)
    markers are being written   CONCURRENT_TRANSACTIONS

A client that names its producer id and epoch is fenced if they are outdated; one that repeats a request whose response
got lost gets the same response again.
"""

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordinator_shard import Decision
from penstock.core.transactions.end_transaction import abort_and_fence, prepare
from penstock.core.transactions.requests import Initialized, InitProducer
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    NO_TIMEOUT,
    ProducerIdAndEpoch,
    TransactionMetadata,
    is_exhausted,
)


def init_producer_id(
    known: TransactionMetadata | None,
    request: InitProducer,
    now_ms: int,
    *,
    replaced: ProducerIdAndEpoch | None,
) -> Decision[Initialized]:
    """`replaced` is the identity that the client with the current epoch had named, if it named one."""
    timeout_ms = NO_TIMEOUT if request.two_phase else request.timeout_ms
    if known is None:
        known = _unused(request, timeout_ms, now_ms)
    current = request.current
    if current is not None and not _may_be_current(known, current):
        return Decision.refused(ErrorCode.PRODUCER_FENCED)
    if known.state.is_prepared:
        return Decision.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state is TransactionState.ONGOING:
        return _keep(known, request, now_ms) if request.keep_prepared else _abort_and_fence(known, now_ms)
    if current is None or known.producer_epoch == NO_EPOCH or current == known.identity:
        following = _following(known, request)
    elif current == replaced:
        following = known.identity
    else:
        return Decision.refused(ErrorCode.PRODUCER_FENCED)
    return _hand_over(known, following, timeout_ms, now_ms)


def _unused(request: InitProducer, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    return TransactionMetadata(
        transactional_id=request.transactional_id,
        producer_id=request.spare_producer_id,
        producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        updated_ms=now_ms,
    )


def _may_be_current(known: TransactionMetadata, current: ProducerIdAndEpoch) -> bool:
    """Whether the client has the producer id, or had it until its epochs were exhausted; the epoch is checked later."""
    if known.producer_epoch == NO_EPOCH or current.producer_id == known.producer_id:
        return True
    if known.is_kept and current.producer_id == known.next_producer_id:
        return True
    return current.producer_id == known.previous_producer_id and is_exhausted(current.epoch)


def _abort_and_fence(known: TransactionMetadata, now_ms: int) -> Decision[Initialized]:
    return prepare(Refusal(ErrorCode.CONCURRENT_TRANSACTIONS), abort_and_fence(known, now_ms))


def _keep(known: TransactionMetadata, request: InitProducer, now_ms: int) -> Decision[Initialized]:
    """Keep the open transaction; from now on only the new client can end it."""
    holder = known.holder
    if request.current is not None and request.current != holder:
        return Decision.refused(ErrorCode.PRODUCER_FENCED)
    if is_exhausted(holder.epoch + 1):
        following = ProducerIdAndEpoch(request.spare_producer_id, 0)
    else:
        following = ProducerIdAndEpoch(holder.producer_id, holder.epoch + 1)
    kept = known.changed(
        next_producer_id=following.producer_id, next_producer_epoch=following.epoch, updated_ms=now_ms
    )
    return Decision(Initialized(following, ongoing=known.identity), (kept.record(),))


def _following(known: TransactionMetadata, request: InitProducer) -> ProducerIdAndEpoch:
    if known.epoch_is_exhausted:
        return ProducerIdAndEpoch(request.spare_producer_id, 0)
    return ProducerIdAndEpoch(known.producer_id, known.producer_epoch + 1)


def _hand_over(
    known: TransactionMetadata, following: ProducerIdAndEpoch, timeout_ms: int, now_ms: int
) -> Decision[Initialized]:
    is_same = following.producer_id == known.producer_id
    handed_over = known.changed(
        producer_id=following.producer_id,
        producer_epoch=following.epoch,
        previous_producer_id=known.previous_producer_id if is_same else known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        started_ms=NO_TIME,
        updated_ms=now_ms,
    )
    return Decision(Initialized(following), (handed_over.record(),))
