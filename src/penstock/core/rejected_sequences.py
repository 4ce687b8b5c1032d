"""Batches that a partition could not take for a while, though nothing was wrong with them, and what follows those.

A producer has several batches under way. If one is turned away because too few replicas are in sync, or because this
broker does not lead yet, the next one may come when that is over, and finds a gap before it. The gap is of the broker's
making, and the producer must not be told that it is out of order: librdkafka then begins a new epoch and sends all that
was not answered again, and what of that lies in the log already is not known again. So what follows a batch that was
turned away is turned away for the same reason, until the producer is back where it was. Kafka has no such memory.
"""

from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.records.batch import BatchHeader

PRODUCERS_MAX: Final = 1_000
# Who was told no goes back before it sends anything else. What was under way then has come, or was given up, after the
# time that clients give a request by default; from then on a gap is the producer's own.
REMEMBERED_MS: Final = 30_000

# Reasons that pass by themselves and have nothing to do with the batch.
PASSING: Final = frozenset(
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)
)


class _Gap(NamedTuple):
    """The end of what was turned away of one producer, without a gap; `since_ms` is when that began."""

    producer_epoch: int
    next_sequence: int
    reason: ErrorCode
    since_ms: int


class RejectedSequences:
    """Of one partition, by producer, the oldest first."""

    __slots__ = ("_gaps",)

    def __init__(self) -> None:
        self._gaps: dict[int, _Gap] = {}

    def __len__(self) -> int:
        return len(self._gaps)

    def note(self, header: BatchHeader, reason: ErrorCode, *, now_ms: int) -> None:
        """A batch was turned away."""
        before = self._gaps.pop(header.producer_id, None)
        since_ms = before.since_ms if before is not None and _follows(header, before) else now_ms
        self._forget(now_ms)
        self._gaps[header.producer_id] = _Gap(header.producer_epoch, header.next_sequence, reason, since_ms)

    def reason(self, header: BatchHeader, *, now_ms: int) -> ErrorCode | None:
        """Why the batch right before this one was turned away; None if it was not, or long ago."""
        gap = self._gaps.get(header.producer_id)
        if gap is None or not _follows(header, gap) or now_ms - gap.since_ms >= REMEMBERED_MS:
            return None
        return gap.reason

    def _forget(self, now_ms: int) -> None:
        """Those that count no more, and the oldest if there are too many."""
        for producer_id, gap in list(self._gaps.items()):
            if now_ms - gap.since_ms < REMEMBERED_MS and len(self._gaps) < PRODUCERS_MAX:
                return
            del self._gaps[producer_id]


def _follows(header: BatchHeader, gap: _Gap) -> bool:
    return header.producer_epoch == gap.producer_epoch and header.base_sequence == gap.next_sequence
