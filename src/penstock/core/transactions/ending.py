"""The end of a transaction: EndTxn of both versions, timeouts and fencing; and its completion.

Version 2 (EndTxn v5) gives the producer a new epoch with every end, a new producer id where the epochs are used up,
and the markers bear the new epoch. So the epoch tells a repeated request from one of the next transaction:

    state                      asked with the state's own epoch        asked with the one before (a repetition)
    ONGOING                    it ends                                 PRODUCER_FENCED
    PREPARE_*                  PRODUCER_FENCED                         CONCURRENT_TRANSACTIONS, until it is complete
    COMPLETE_*                 abort: an empty transaction ends        the answer of the first time
                               commit: INVALID_TXN_STATE
    EMPTY                      abort: as above; commit: as above       PRODUCER_FENCED

    A repetition that asks for the other outcome is answered INVALID_TXN_STATE.

Before version 2 the epoch stays, and a request that comes late can end a later transaction of the same epoch: the
anomaly that version 2 is there for. COMPLETE_COMMIT answers any commit with success, and so on.
"""

from typing import TypeVar

from penstock.base.errors import ErrorCode, Refusal
from penstock.core.coordination import Decision
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
    """Who the producer is once the transaction is over; answered when the outcome is certain."""
    if known is None:
        return Decision.refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.client_version >= VERSION_2:
        return _end_version_2(known, request, now_ms)
    return _end_version_1(known, request, now_ms)


def prepare(response: R | Refusal, prepared: TransactionMetadata) -> Decision[R]:
    """Make an outcome certain; its effect is that markers have to be written."""
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
    if _is_repetition(known, request.identity):
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
    """Which epoch the markers bear, and who comes afterwards.

    A transaction that was kept for two-phase commit goes over to the client that ends it; if that one has another
    producer id, the id changes when the markers are written: they bear the id under which the data was.
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


def _is_repetition(known: TransactionMetadata, asked: ProducerIdAndEpoch) -> bool:
    """Whether the answer of this very request got lost: what is known now is what it led to."""
    if not (known.state.is_prepared or _was_completed(known.state)):
        return False
    after = _identity_after(known)
    if asked == (after.producer_id, after.epoch - 1):
        return True
    is_overflow = after.epoch == 0 and asked.epoch == EPOCH_MAX - 1
    before = known.producer_id if known.state.is_prepared else known.previous_producer_id
    return is_overflow and asked.producer_id == before


def _identity_after(known: TransactionMetadata) -> ProducerIdAndEpoch:
    """Who the producer is once the markers are written."""
    if known.next_producer_id == NO_PRODUCER_ID:
        return known.identity
    return ProducerIdAndEpoch(known.next_producer_id, max(known.next_producer_epoch, 0))


def _identity_refusal(expected: ProducerIdAndEpoch, asked: ProducerIdAndEpoch) -> ErrorCode | None:
    if asked.producer_id != expected.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.PRODUCER_FENCED if asked.epoch != expected.epoch else None


def abort_and_fence(known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The open transaction is aborted by the coordinator: its producer must not go on under its epoch."""
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
