"""Producer state of one partition: fences zombie producers, and finds duplicate and out-of-order batches.

A producer numbers its records, 0 to 2**31 - 1 and around again. Its last five batches are remembered, so that a batch
sent again because the response got lost is recognised and answered as the first time. `check` changes nothing;
`replay`, `replay_marker`, `restore` and `expire` change the state.

The outcomes are those of Apache Kafka 4.3.1:

    sequence follows the last one                 append
    one of the last five batches again            duplicate: the first response again
    anything else                                 OUT_OF_ORDER_SEQUENCE_NUMBER
    unknown (or expired) producer                 append, whatever its sequence
    newer epoch, sequence 0                       append, forget the old epoch's batches
    newer epoch, other sequence                   OUT_OF_ORDER_SEQUENCE_NUMBER
    older epoch, even with a remembered batch     INVALID_PRODUCER_EPOCH: the producer is fenced

Except that a batch that follows one rejected for a transient reason, and would be out of order or the first of an
unknown producer, is rejected for the same reason (`rejected_sequences` says why; Kafka does not do that).

In transactions:

    first batch of one, not verified              INVALID_TXN_STATE
    first batch, with lower sequences awaited     OUT_OF_ORDER_SEQUENCE_NUMBER (see `transaction_verification`)
    first batch of an unknown version 2 client    OUT_OF_ORDER_SEQUENCE_NUMBER, unless its sequence is 0
    not transactional, while one is open          INVALID_TXN_STATE
    marker of an older epoch                      INVALID_PRODUCER_EPOCH; in version 2, where every
                                                  transaction ends with a new epoch, also of the same
    marker of an older coordinator                TRANSACTION_COORDINATOR_FENCED

The state of a producer with an open transaction does not expire.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from penstock.base.errors import ErrorCode
from penstock.core.open_transactions import OpenTransactions
from penstock.core.rejected_sequences import RejectedSequences
from penstock.core.transaction_verification import Verifications
from penstock.records.batch import TRANSACTIONAL, BatchHeader, following_sequence
from penstock.records.control import Marker
from penstock.records.producer import NO_TRANSACTION, AbortedTransaction, EarlierBatch, ProducerEntry

BATCHES_REMEMBERED = 5
PRODUCERS_MAX_DEFAULT = 10_000

_SEQUENCE_MAX = 2**31 - 1
_PRODUCERS_WITH_EARLIER = 1_000  # in a snapshot, which is made on the loop
_NO_EPOCH = -1
_NO_COORDINATOR = -1
_NO_TIMESTAMP = -1
_VERSION_2 = 2


class Duplicate(NamedTuple):
    """The batch is in the log already, at these offsets and with this max timestamp."""

    base_offset: int
    last_offset: int
    timestamp: int


# The fields of an EarlierBatch; a plain tuple, as one is made per batch.
_Batch: TypeAlias = tuple[int, int, int, int, int]


class _Producer:
    """The state of one producer."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "first_offset_of_transaction",
        "fresh",
        "idle_since_ms",
        "timestamp",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[_Batch] = deque(maxlen=BATCHES_REMEMBERED)
        self.coordinator_epoch = _NO_COORDINATOR
        self.first_offset_of_transaction = NO_TRANSACTION
        # Has written since `expire` was last called.
        self.fresh = False
        self.idle_since_ms = 0
        self.timestamp = _NO_TIMESTAMP  # of the last batch or marker

    def move_to(self, epoch: int) -> None:
        """Sequences start again at 0 with every epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def add(self, epoch: int, batch: _Batch) -> None:
        if epoch != self.epoch:
            self.move_to(epoch)
        self.batches.append(batch)
        self.timestamp = batch[4]
        self.fresh = True


class ProducerStates:
    """All producers of one partition that have an id, the longest idle first.

    Bounded twice: `expire` removes producers that were idle for long, and beyond `producers_max` the longest idle is
    removed (a limit Kafka does not have). A removed producer can still write; only its duplicates are not detected.
    """

    def __init__(self, producers_max: int = PRODUCERS_MAX_DEFAULT) -> None:
        self.producers_max = producers_max
        self.transactions = OpenTransactions()
        self.verifications = Verifications()
        self.rejected_sequences = RejectedSequences()
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader, *, now_ms: int, verified: bool = True) -> Duplicate | ErrorCode:
        """NONE if the batch may be appended; `verified` says whether it may begin a transaction."""
        verdict = self._check(header, verified)
        if len(self.rejected_sequences) and (
            verdict is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            or (verdict is ErrorCode.NONE and header.producer_id not in self._producers)
        ):
            return self.rejected_sequences.reason(header, now_ms=now_ms) or verdict
        return verdict

    def _check(self, header: BatchHeader, verified: bool) -> Duplicate | ErrorCode:
        producer = self._producers.get(header.producer_id)
        if header.attributes & TRANSACTIONAL:
            if not self.is_in_transaction(header.producer_id, header.producer_epoch):
                return self._check_first_of_transaction(header, producer, verified)
        elif producer is not None and _in_transaction(producer):
            outcome = _check_epoch_and_sequence(header, producer)
            return ErrorCode.INVALID_TXN_STATE if outcome is ErrorCode.NONE else outcome
        return ErrorCode.NONE if producer is None else _check_epoch_and_sequence(header, producer)

    def _check_first_of_transaction(
        self, header: BatchHeader, producer: _Producer | None, verified: bool
    ) -> Duplicate | ErrorCode:
        """Check the first batch of a transaction, or a duplicate of the last transaction's."""
        outcome = ErrorCode.NONE if producer is None else _check_epoch_and_sequence(header, producer)
        if isinstance(outcome, Duplicate):
            return outcome
        if not verified:
            return ErrorCode.INVALID_TXN_STATE
        asked = self.verifications.of(header.producer_id)
        if outcome is ErrorCode.NONE and asked is not None:
            is_unknown = producer is None or (producer.epoch == _NO_EPOCH and not producer.batches)
            skips_some = header.base_sequence > asked.lowest_sequence
            if skips_some or (is_unknown and asked.bumps_epochs and header.base_sequence):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return outcome

    def check_marker(self, marker: Marker, *, version: int = 0) -> ErrorCode:
        """NONE if a marker of a transaction of this version may be appended."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return ErrorCode.NONE
        epoch = marker.producer_epoch
        if epoch < producer.epoch or (version >= _VERSION_2 and epoch == producer.epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.epoch == epoch and _in_transaction(producer)

    def replay(self, header: BatchHeader) -> None:
        """Apply a batch that is in the log, at the offsets its header has. Never rejects it."""
        producer = self._touch(header)
        sequences = header.base_sequence, header.last_sequence
        place = header.base_offset, header.last_offset, header.max_timestamp
        producer.add(header.producer_epoch, (*sequences, *place))
        if header.attributes & TRANSACTIONAL and not _in_transaction(producer):
            producer.first_offset_of_transaction = header.base_offset
            self.transactions.begin(header.producer_id, header.base_offset)
            self.verifications.end(header.producer_id)

    def replay_marker(self, header: BatchHeader, marker: Marker) -> AbortedTransaction | None:
        """Apply a marker that is in the log; returns the entry for the index of aborted transactions.

        A marker of a transaction without batches in this partition only updates the epoch.
        """
        producer = self._touch(header)
        producer.move_to(header.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.timestamp = header.max_timestamp
        producer.fresh = True
        self.verifications.end(header.producer_id)
        if not _in_transaction(producer):
            return None
        first_offset = producer.first_offset_of_transaction
        producer.first_offset_of_transaction = NO_TRANSACTION
        self.transactions.end(header.producer_id, marker_offset=header.last_offset)
        if marker.committed:
            return None
        return AbortedTransaction(
            producer_id=header.producer_id,
            first_offset=first_offset,
            last_offset=header.last_offset,
            last_stable_offset=self.transactions.stable_after(header.last_offset),
        )

    def _touch(self, header: BatchHeader) -> _Producer:
        # Taken out and put back: a dict's order is then the order of the last writes.
        producer = self._producers.pop(header.producer_id, None)
        if producer is None:
            self._evict_longest_idle()
            producer = _Producer(header.producer_epoch)
        self._producers[header.producer_id] = producer
        return producer

    def restore(self, entries: Sequence[ProducerEntry]) -> None:
        """Replace the state by a snapshot, which may have only the last batch of each producer."""
        self._producers = {}
        for entry in sorted(entries, key=lambda entry: entry.timestamp):
            producer = _Producer(entry.producer_epoch)
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.first_offset_of_transaction = entry.current_txn_first_offset
            producer.idle_since_ms = producer.timestamp = entry.timestamp
            if entry.last_sequence >= 0:
                producer.batches.extend(entry.earlier)
                base_sequence = (entry.last_sequence - entry.offset_delta) & _SEQUENCE_MAX
                place = entry.last_offset - entry.offset_delta, entry.last_offset, entry.timestamp
                producer.batches.append((base_sequence, entry.last_sequence, *place))
            self._producers[entry.producer_id] = producer
        self.transactions.restore(
            {
                entry.producer_id: entry.current_txn_first_offset
                for entry in entries
                if entry.current_txn_first_offset != NO_TRANSACTION
            }
        )
        self.verifications = Verifications()

    def entries(self) -> list[ProducerEntry]:
        """The entries of a snapshot; with earlier batches only for the producers that wrote last."""
        silent = len(self._producers) - _PRODUCERS_WITH_EARLIER
        return [
            _entry(producer_id, producer, knows_earlier=number >= silent)
            for number, (producer_id, producer) in enumerate(self._producers.items())
        ]

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Remove the producers that have been idle for `expiration_ms` (producer.id.expiration.ms); their ids.

        Idle time is counted from the first call after a producer's last write, by the broker's clock: records may have
        any timestamp. After a restart the last record's timestamp is used.
        """
        expired = []
        for producer_id, producer in self._producers.items():
            if producer.fresh:
                producer.fresh = False
                producer.idle_since_ms = now_ms
            elif now_ms - producer.idle_since_ms >= expiration_ms and not _in_transaction(producer):
                expired.append(producer_id)
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.forget(expired)
        return expired

    def _evict_longest_idle(self) -> None:
        if len(self._producers) < self.producers_max:
            return
        for producer_id, producer in self._producers.items():
            if not _in_transaction(producer):
                del self._producers[producer_id]
                return


def _in_transaction(producer: _Producer) -> bool:
    return producer.first_offset_of_transaction != NO_TRANSACTION


def _check_epoch_and_sequence(header: BatchHeader, producer: _Producer) -> Duplicate | ErrorCode:
    if producer.epoch == _NO_EPOCH:
        return ErrorCode.NONE
    if header.producer_epoch < producer.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if header.producer_epoch > producer.epoch or not producer.batches:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if header.base_sequence else ErrorCode.NONE
    if header.base_sequence == following_sequence(producer.batches[-1][1]):
        return ErrorCode.NONE
    sequences = header.base_sequence, header.last_sequence
    for batch in producer.batches:
        if batch[:2] == sequences:
            return Duplicate(*batch[2:])
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _entry(producer_id: int, producer: _Producer, *, knows_earlier: bool) -> ProducerEntry:
    last_sequence, last_offset, offset_delta = -1, -1, 0
    earlier: tuple[EarlierBatch, ...] = ()
    if producer.batches:
        if knows_earlier:
            earlier = tuple(
                EarlierBatch(*batch) for batch in islice(producer.batches, len(producer.batches) - 1)
            )
        _, last_sequence, base_offset, last_offset, _ = producer.batches[-1]
        offset_delta = last_offset - base_offset
    return ProducerEntry(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=last_sequence,
        last_offset=last_offset,
        offset_delta=offset_delta,
        timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_first_offset=producer.first_offset_of_transaction,
        earlier=earlier,
    )
