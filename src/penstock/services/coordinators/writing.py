"""From decisions to batches in a partition's log.

A decision is written at once where it is the only one of its turn of the loop. A shard that is asked more often
gathers: what is decided in a turn is written as one batch at its end, so that an append, which costs more than a
decision, is shared. That goes on until a turn has but one decision. With a linger time everything is gathered, for that
long.

What was gathered has its offsets already, as nobody else writes to the partition; only markers do, and whoever writes
one calls `flush` before. Should anything else have come between, or the append fail, then what is gathered is lost, and
the instance with it.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from penstock.base.errors import ErrorCode
from penstock.core.coordination import BatchProducer
from penstock.records.batch import TRANSACTIONAL
from penstock.records.builder import build_plain_batch
from penstock.records.internal.record import InternalRecord, RecordFormat
from penstock.services.replicas.replica import Replica
from penstock.services.topic_rules import AppendError
from penstock.world import Loop

NO_LINGER: Final = -1

_GATHERED_BYTES_MAX: Final = 1 << 16
_OVERHEAD_BYTES_MAX: Final = (
    32  # of a record: six lengths and differences, all but its own as small as can be
)
_BATCH_OVERHEAD_BYTES: Final = 61

_Encoded: TypeAlias = tuple[bytes, bytes | None]


class ShardWriter:
    """Writes what one instance decides, under the leader epoch it was loaded in."""

    def __init__(
        self,
        loop: Loop,
        partition: Replica,
        record_format: RecordFormat,
        *,
        linger_ms: int,
        on_flushed: Callable[[ErrorCode], None],
    ) -> None:
        self._loop = loop
        self._partition = partition
        self._encode = record_format.encode
        self._on_flushed = on_flushed
        self._linger_ms = linger_ms
        self._gathers = linger_ms >= 0
        self._decisions = 0  # of this turn, or since the linger time began
        self._gathered: list[_Encoded] = []
        self._gathered_bytes = 0
        self._gathered_from = 0  # the offset of the first of them
        self.leader_epoch = partition.leader_epoch

    @property
    def has_gathered(self) -> bool:
        """Whether `on_flushed` will be called soon."""
        return bool(self._gathered)

    def write(self, records: Sequence[InternalRecord], producer: BatchProducer | None) -> int | ErrorCode:
        """Where the first of the records is, or will be at the end of this turn; or why they are not written."""
        encoded = [self._encode(record) for record in records]
        self._decisions += 1
        if self._decisions == 1:
            self._end_later()
        if producer is None and (self._gathers or self._decisions > 1):
            return self._gather(encoded)
        code = self.flush()
        return self._append(encoded, producer) if code is ErrorCode.NONE else code

    def _gather(self, encoded: list[_Encoded]) -> int | ErrorCode:
        size = sum(len(key) + len(value or b"") + _OVERHEAD_BYTES_MAX for key, value in encoded)
        limit = min(_GATHERED_BYTES_MAX, self._partition.topic_rules.size_max - _BATCH_OVERHEAD_BYTES)
        if self._gathered_bytes + size > limit:
            code = self.flush()
            if code is not ErrorCode.NONE:
                return code
            if size > limit:
                return self._append(encoded, None)
        if not self._gathered:
            self._gathered_from = self._partition.log.end_offset
        offset = self._gathered_from + len(self._gathered)
        self._gathered += encoded
        self._gathered_bytes += size
        return offset

    def _end_later(self) -> None:
        if self._linger_ms > 0:
            self._loop.call_later(self._linger_ms / 1000, self._end_turn)
        else:
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._gathers = self._decisions > 1 or self._linger_ms >= 0
        self._decisions = 0
        self.flush()

    def flush(self) -> ErrorCode:
        """Write what was gathered. If that cannot be, `on_flushed` is told too."""
        if not self._gathered:
            return ErrorCode.NONE
        gathered, offset = self._gathered, self._gathered_from
        self.discard()
        outcome = self._append(gathered, None)
        if isinstance(outcome, ErrorCode):
            code = outcome
        else:
            code = ErrorCode.NONE if outcome == offset else ErrorCode.UNKNOWN_SERVER_ERROR
        self._on_flushed(code)
        return code

    def discard(self) -> None:
        """Forget what was gathered: its instance is of no use any more."""
        self._gathered = []
        self._gathered_bytes = 0

    def _append(self, encoded: Sequence[_Encoded], producer: BatchProducer | None) -> int | ErrorCode:
        now_ms = self._loop.now_ms()
        if producer is None:
            batch = build_plain_batch(encoded, timestamp=now_ms)
        else:
            batch = build_plain_batch(
                encoded,
                timestamp=now_ms,
                attributes=TRANSACTIONAL,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
            )
        appended = self._partition.append_own(batch, leader_epoch=self.leader_epoch, now_ms=now_ms)
        return appended.code if isinstance(appended, AppendError) else appended.base_offset
