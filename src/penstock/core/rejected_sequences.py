"""Sequences of idempotent producers that a partition rejected for a transient reason.

A producer has several batches in flight. If one is rejected with NOT_ENOUGH_REPLICAS or NOT_LEADER_OR_FOLLOWER, the
next one may arrive when the reason is over, and its sequence leaves a gap. After OUT_OF_ORDER_SEQUENCE_NUMBER
librdkafka bumps its epoch and sends all unacknowledged batches again, and those that are in the log already are not
recognised as duplicates. So a batch that follows a rejected one is rejected for the same reason, until the producer has
sent the rejected one again. Kafka has no such memory.
"""

from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.records.batch import BatchHeader

PRODUCERS_MAX: Final = 1_000
# A producer retries the rejected batch before it sends new ones. Batches that were in flight have arrived or timed out
# after the clients' default request timeout; from then on a gap is the producer's own.
REMEMBERED_MS: Final = 30_000

# Transient errors that have nothing to do with the batch.
PASSING: Final = frozenset(
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)
)


class _Gap(NamedTuple):
    """The end of one producer's rejected sequences, which are contiguous; `since_ms` is when the first was rejected."""

    producer_epoch: int
    next_sequence: int
    reason: ErrorCode
    since_ms: int


class RejectedSequences:
    """The rejected sequences of one partition, by producer, the oldest first."""

    __slots__ = ("_gaps",)

    def __init__(self) -> None:
        self._gaps: dict[int, _Gap] = {}

    def __len__(self) -> int:
        return len(self._gaps)

    def note(self, header: BatchHeader, reason: ErrorCode, *, now_ms: int) -> None:
        """A batch was rejected."""
        before = self._gaps.pop(header.producer_id, None)
        since_ms = before.since_ms if before is not None and _follows(header, before) else now_ms
        self._remove_outdated(now_ms)
        self._gaps[header.producer_id] = _Gap(header.producer_epoch, header.next_sequence, reason, since_ms)

    def reason(self, header: BatchHeader, *, now_ms: int) -> ErrorCode | None:
        """Why the batch right before this one was rejected; None if it was not, or long ago."""
        gap = self._gaps.get(header.producer_id)
        if gap is None or not _follows(header, gap) or now_ms - gap.since_ms >= REMEMBERED_MS:
            return None
        return gap.reason

    def _remove_outdated(self, now_ms: int) -> None:
        """Remove outdated entries, and the oldest if there are too many."""
        for producer_id, gap in list(self._gaps.items()):
            if now_ms - gap.since_ms < REMEMBERED_MS and len(self._gaps) < PRODUCERS_MAX:
                return
            del self._gaps[producer_id]


def _follows(header: BatchHeader, gap: _Gap) -> bool:
    return header.producer_epoch == gap.producer_epoch and header.base_sequence == gap.next_sequence
