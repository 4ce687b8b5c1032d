"""The timers of transactional ids: transaction timeouts, expiration of unused ids, and markers still to be written."""

from typing import Final

from penstock.core.coordinator_shard import Decision
from penstock.core.transactions.end_transaction import abort_and_fence, prepare
from penstock.core.transactions.settings import TransactionSettings
from penstock.core.transactions.transaction import TransactionMetadata, tombstone

# A decision whose records could not be appended, or whose effect was lost, is made again after this time.
RETRY_MS: Final = 5_000


def deadline_ms(known: TransactionMetadata, settings: TransactionSettings) -> int | None:
    """When `expire` has something to do for the id; None if never."""
    if known.may_time_out:
        return known.started_ms + known.timeout_ms
    if known.state.is_idle:
        return known.updated_ms + settings.expiration_ms
    return known.updated_ms + RETRY_MS if known.state.is_prepared else None


def expire(known: TransactionMetadata, now_ms: int) -> Decision[None] | None:
    """The decision for an id whose deadline has passed."""
    if known.state.is_idle:
        return _expire_transactional_id(known)
    if known.state.is_prepared:
        return _write_missing_markers(known)
    return _abort_timed_out(known, now_ms) if known.may_time_out else None


def _expire_transactional_id(known: TransactionMetadata) -> Decision[None]:
    """Not used for transactional.id.expiration.ms."""
    return Decision(None, (tombstone(known.transactional_id),))


def _write_missing_markers(known: TransactionMetadata) -> Decision[None]:
    """The outcome is decided, and some partitions have no marker yet: have them written (again)."""
    return Decision(None, effects=(known,))


def _abort_timed_out(known: TransactionMetadata, now_ms: int) -> Decision[None]:
    """The transaction is open for longer than its timeout: abort it, and fence its producer with a new epoch."""
    return prepare(None, abort_and_fence(known, now_ms))
