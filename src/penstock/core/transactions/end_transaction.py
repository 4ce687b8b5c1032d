"""The end of a transaction: EndTxn of both versions, timeouts and fencing; and its completion.

Version 2 (EndTxn v5) bumps the producer epoch with every end, allocates a new producer id when the epochs are
exhausted, and the markers carry the new epoch. So the epoch tells a retry from a request of the next transaction:

    state                      request with the current epoch          request with the epoch before (a retry)
    ONGOING                    it ends                                 PRODUCER_FENCED
    PREPARE_*                  PRODUCER_FENCED                         CONCURRENT_TRANSACTIONS, until it is complete
    COMPLETE_*                 abort: an empty transaction ends        the same response again
                               commit: INVALID_TXN_STATE
    EMPTY                      abort: as above; commit: as above       PRODUCER_FENCED

    A retry with the other outcome gets INVALID_TXN_STATE.

Before version 2 the epoch stays, and a delayed request can end a later transaction of the same epoch: the anomaly that
version 2 prevents. In COMPLETE_COMMIT any commit succeeds, in COMPLETE_ABORT any abort.
"""

from typing import TypeVar

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordinator_shard import Decision
from penstock.core.transactions.requests import EndTransaction
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import (
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    VERSION_2,
    ProducerIdAndEpoch,
    TransactionMetadata,
)

R = TypeVar("R")


def end(
    known: TransactionMetadata | None, request: EndTransaction, now_ms: int
) -> Decision[ProducerIdAndEpoch]:
    """The producer id and epoch for the next transaction; the response is given when the outcome is committed."""
    if known is None:
        return Decision.refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.client_version >= VERSION_2:
        return _end_version_2(known, request, now_ms)
    return _end_version_1(known, request, now_ms)


def prepare(response: R | Refusal, prepared: TransactionMetadata) -> Decision[R]:
    """Write PREPARE_COMMIT or PREPARE_ABORT; the effect is that markers have to be written."""
    return Decision(response, (prepared.record(),), effects=(prepared,))


def _end_version_1(
    known: TransactionMetadata, request: EndTransaction, now_ms: int
) -> Decision[ProducerIdAndEpoch]:
    refusal = _identity_refusal(known.holder, request.identity)
    if refusal is not None:
        return Decision.refused(refusal)
    state = known.state
    if state is TransactionState.ONGOING:
        prepared = known.changed(
            state=_prepared(commit=request.commit),
            client_version=request.client_version,
            updated_ms=now_ms,
            **_settled_identity(known, bump=False),
        )
        return prepare(request.identity, prepared)
    if state is TransactionState.EMPTY or _was_committed(state) is not request.commit:
        return Decision.refused(ErrorCode.INVALID_TXN_STATE)
    if state.is_prepared:
        return Decision.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Decision(request.identity)


def _end_version_2(
    known: TransactionMetadata, request: EndTransaction, now_ms: int
) -> Decision[ProducerIdAndEpoch]:
    state = known.state
    if _is_retry(known, request.identity):
        if _was_committed(state) is not request.commit:
            return Decision.refused(ErrorCode.INVALID_TXN_STATE)
        if state.is_prepared:
            return Decision.refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        return Decision(known.identity)
    refusal = _identity_refusal(known.holder, request.identity)
    if refusal is not None:
        return Decision.refused(refusal)
    if state.is_prepared:
        return Decision.refused(ErrorCode.PRODUCER_FENCED)
    if state is not TransactionState.ONGOING and request.commit:
        return Decision.refused(ErrorCode.INVALID_TXN_STATE)
    prepared = _prepare_version_2(known, request, now_ms)
    return prepare(_identity_after(prepared), prepared)


def _prepare_version_2(
    known: TransactionMetadata, request: EndTransaction, now_ms: int
) -> TransactionMetadata:
    is_open = known.state is TransactionState.ONGOING
    prepared = known.changed(
        state=_prepared(commit=request.commit),
        client_version=request.client_version,
        started_ms=known.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        **_settled_identity(known, bump=True),
    )
    if prepared.next_producer_id == NO_PRODUCER_ID and known.epoch_is_exhausted:
        return prepared.changed(next_producer_id=request.spare_producer_id)
    return prepared


def _settled_identity(known: TransactionMetadata, *, bump: bool) -> dict[str, int]:
    """The epoch that the markers carry, and the producer id and epoch of the next transaction.

    A transaction that was kept for two-phase commit passes to the client that ends it. If that client has another
    producer id, the id changes after the markers are written: they carry the producer id of the data.
    """
    if not known.is_kept:
        return {"producer_epoch": min(known.producer_epoch + bump, EPOCH_MAX)}
    if known.next_producer_id == known.producer_id:
        return {
            "producer_epoch": known.next_producer_epoch + bump,
            "next_producer_id": NO_PRODUCER_ID,
            "next_producer_epoch": NO_EPOCH,
        }
    return {
        "producer_epoch": min(known.producer_epoch + 1, EPOCH_MAX),
        "next_producer_epoch": known.next_producer_epoch + bump,
    }


def _is_retry(known: TransactionMetadata, asked: ProducerIdAndEpoch) -> bool:
    """Whether this request led to the current state, and its response got lost."""
    if not (known.state.is_prepared or _was_completed(known.state)):
        return False
    after = _identity_after(known)
    if asked == (after.producer_id, after.epoch - 1):
        return True
    is_overflow = after.epoch == 0 and asked.epoch == EPOCH_MAX - 1
    before = known.producer_id if known.state.is_prepared else known.previous_producer_id
    return is_overflow and asked.producer_id == before


def _identity_after(known: TransactionMetadata) -> ProducerIdAndEpoch:
    """The producer id and epoch once the markers are written."""
    if known.next_producer_id == NO_PRODUCER_ID:
        return known.identity
    return ProducerIdAndEpoch(known.next_producer_id, max(known.next_producer_epoch, 0))


def _identity_refusal(expected: ProducerIdAndEpoch, asked: ProducerIdAndEpoch) -> ErrorCode | None:
    if asked.producer_id != expected.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.PRODUCER_FENCED if asked.epoch != expected.epoch else None


def abort_and_fence(known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Abort the open transaction on behalf of the coordinator, and fence its producer with a new epoch."""
    settled = _settled_identity(known, bump=True)
    return known.changed(**{**settled, "state": TransactionState.PREPARE_ABORT, "updated_ms": now_ms})


def complete(known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All markers are written."""
    after = _identity_after(known)
    was_commit = known.state is TransactionState.PREPARE_COMMIT
    is_same = after.producer_id == known.producer_id
    return known.changed(
        producer_id=after.producer_id,
        producer_epoch=after.epoch,
        previous_producer_id=known.previous_producer_id if is_same else known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        state=TransactionState.COMPLETE_COMMIT if was_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
    )


def _prepared(*, commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT


def _was_committed(state: TransactionState) -> bool:
    return state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def _was_completed(state: TransactionState) -> bool:
    return state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
