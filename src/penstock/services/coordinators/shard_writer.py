"""Appends the records of decisions, as batches, to the log of a partition of an internal topic.

A decision that is alone in its turn of the loop is appended at once. After a turn with several decisions, the records
of each turn are accumulated and appended as one batch at its end, since an append costs more than a decision, until a
turn has one decision only. With `group.coordinator.append.linger.ms`, all records are accumulated for that long.

The records of the current batch have their offsets already, since no other code writes to the partition; except
transaction markers, whose writer calls `flush` first. If anything else was appended in between, or the append fails,
the records are lost, and the shard is unloaded.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import BatchProducer
from penstock.records.batch import TRANSACTIONAL
from penstock.records.builder import build_plain_batch
from penstock.records.internal.record import InternalRecord, RecordFormat
from penstock.services.replicas.leader import LeaderRole
from penstock.services.topic_rules import AppendError
from penstock.world import Loop

NO_LINGER: Final = -1

_BATCH_BYTES_MAX: Final = 1 << 16
_RECORD_OVERHEAD_BYTES_MAX: Final = (
    32  # six lengths and deltas, all but the record's own length as small as can be
)
_BATCH_OVERHEAD_BYTES: Final = 61

_Encoded: TypeAlias = tuple[bytes, bytes | None]


class ShardWriter:
    """Appends the records of one loaded shard, in the leader epoch in which it was loaded."""

    def __init__(
        self,
        loop: Loop,
        leader: LeaderRole,
        record_format: RecordFormat,
        *,
        linger_ms: int,
        on_flushed: Callable[[ErrorCode], None],
    ) -> None:
        self._loop = loop
        self._leader = leader
        self._encode = record_format.encode
        self._on_flushed = on_flushed
        self._linger_ms = linger_ms
        self._batching = linger_ms >= 0
        self._decisions = 0  # of this turn, or since the linger time began
        self._batch: list[_Encoded] = []
        self._batch_bytes = 0
        self._batch_base_offset = 0

    @property
    def has_batch(self) -> bool:
        """Whether records wait for `flush`, so that `on_flushed` will be called."""
        return bool(self._batch)

    def write(self, records: Sequence[InternalRecord], producer: BatchProducer | None) -> int | ErrorCode:
        """The offset that the first record has, or will have at the end of this turn; or why they are not appended."""
        encoded = [self._encode(record) for record in records]
        self._decisions += 1
        if self._decisions == 1:
            self._end_turn_later()
        if producer is None and (self._batching or self._decisions > 1):
            return self._add_to_batch(encoded)
        code = self.flush()
        return self._append(encoded, producer) if code is ErrorCode.NONE else code

    def _add_to_batch(self, encoded: list[_Encoded]) -> int | ErrorCode:
        size = sum(len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES_MAX for key, value in encoded)
        limit = min(_BATCH_BYTES_MAX, self._leader.batch_size_max - _BATCH_OVERHEAD_BYTES)
        if self._batch_bytes + size > limit:
            code = self.flush()
            if code is not ErrorCode.NONE:
                return code
            if size > limit:
                return self._append(encoded, None)
        if not self._batch:
            self._batch_base_offset = self._leader.log_end_offset
        offset = self._batch_base_offset + len(self._batch)
        self._batch += encoded
        self._batch_bytes += size
        return offset

    def _end_turn_later(self) -> None:
        if self._linger_ms > 0:
            self._loop.call_later(self._linger_ms / 1000, self._end_turn)
        else:
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._batching = self._decisions > 1 or self._linger_ms >= 0
        self._decisions = 0
        self.flush()

    def flush(self) -> ErrorCode:
        """Append the current batch, and call `on_flushed` with the outcome."""
        if not self._batch:
            return ErrorCode.NONE
        batch, offset = self._batch, self._batch_base_offset
        self.discard()
        outcome = self._append(batch, None)
        if isinstance(outcome, ErrorCode):
            code = outcome
        else:
            code = ErrorCode.NONE if outcome == offset else ErrorCode.UNKNOWN_SERVER_ERROR
        self._on_flushed(code)
        return code

    def discard(self) -> None:
        """Forget the current batch: the shard is unloaded."""
        self._batch = []
        self._batch_bytes = 0

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
        appended = self._leader.append_own(batch, now_ms=now_ms)
        return appended.code if isinstance(appended, AppendError) else appended.base_offset
