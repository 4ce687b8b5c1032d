"""Idempotent producers of one partition: is this batch new, a repetition, or out of order?

A producer numbers its records, 0 to 2**31 - 1 and around again. Its last five batches are remembered, so that
a batch sent again because the answer got lost is recognised and answered as the first time. `check` just
looks; `replay`, `restore` and `expire` change what is remembered.

What Apache Kafka 4.3.1 answers, found by asking it, and so do we:

    sequence follows the last one                 take it
    one of the last five batches again            its first answer again
    anything else                                 OUT_OF_ORDER_SEQUENCE_NUMBER
    a producer nobody knows (or no longer)        take it, whatever its sequence
    newer epoch, sequence 0                       take it, forget the old epoch's batches
    newer epoch, other sequence                   OUT_OF_ORDER_SEQUENCE_NUMBER
    older epoch, even with a remembered batch     INVALID_PRODUCER_EPOCH

Transactions are left out: their two fields of an entry are kept as they were restored, and an open
transaction keeps its producer from being forgotten.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.base.errors import ErrorCode
from penstock.records.batch import BatchHeader
from penstock.records.producer import NO_TRANSACTION, ProducerEntry

BATCHES_REMEMBERED = 5
PRODUCERS_MAX_DEFAULT = 10_000

_SEQUENCE_MAX = 2**31 - 1
_NO_EPOCH = -1
_NO_COORDINATOR = -1


class Duplicate(NamedTuple):
    """The batch is in the log already: this is where, and the newest of its timestamps."""

    base_offset: int
    last_offset: int
    timestamp: int


# Base sequence, last sequence, and the three fields of a Duplicate; a plain tuple, as one is made per batch.
_Batch: TypeAlias = tuple[int, int, int, int, int]


class _Producer:
    """What is remembered of one producer."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "first_offset_of_transaction",
        "fresh",
        "idle_since_ms",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[_Batch] = deque(maxlen=BATCHES_REMEMBERED)
        self.coordinator_epoch = _NO_COORDINATOR
        self.first_offset_of_transaction = NO_TRANSACTION
        # Has written since `expire` was last called.
        self.fresh = False
        self.idle_since_ms = 0

    def add(self, epoch: int, batch: _Batch) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
        self.batches.append(batch)
        self.fresh = True


class ProducerStates:
    """All idempotent producers of one partition, the longest silent first.

    Bounded twice: `expire` forgets who is silent for long, and beyond `producers_max` the longest silent goes
    (a limit Kafka does not have). Who is forgotten may write on; only repetitions are no longer recognised.
    """

    def __init__(self, producers_max: int = PRODUCERS_MAX_DEFAULT) -> None:
        self.producers_max = producers_max
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader) -> Duplicate | ErrorCode:
        """NONE if the batch is to be appended next."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch == _NO_EPOCH:
            return ErrorCode.NONE
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > producer.epoch or not producer.batches:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if header.base_sequence else ErrorCode.NONE
        if header.base_sequence == _following(producer.batches[-1][1]):
            return ErrorCode.NONE
        sequences = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if batch[:2] == sequences:
                return Duplicate(*batch[2:])
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def replay(self, header: BatchHeader) -> None:
        """Remember a batch that is in the log, at the offsets its header has. Never refuses."""
        producer_id = header.producer_id
        # Taken out and put back: a dict's order is then the order of the last writes.
        producer = self._producers.pop(producer_id, None)
        if producer is None:
            self._make_room()
            producer = _Producer(header.producer_epoch)
        self._producers[producer_id] = producer
        if header.is_control:
            # A marker has no sequence; all that counts here is that the producer was alive, and its epoch.
            if header.producer_epoch > producer.epoch:
                producer.epoch = header.producer_epoch
                producer.batches.clear()
            producer.fresh = True
            return
        sequences = header.base_sequence, header.last_sequence
        place = header.base_offset, header.last_offset, header.max_timestamp
        producer.add(header.producer_epoch, (*sequences, *place))

    def restore(self, entries: Sequence[ProducerEntry]) -> None:
        """Forget everything and begin with a snapshot, which knows the last batch of each producer only."""
        self._producers = {}
        for entry in sorted(entries, key=lambda entry: entry.timestamp):
            producer = _Producer(entry.producer_epoch)
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.first_offset_of_transaction = entry.current_txn_first_offset
            producer.idle_since_ms = entry.timestamp
            if entry.last_sequence >= 0:
                base_sequence = (entry.last_sequence - entry.offset_delta) & _SEQUENCE_MAX
                place = entry.last_offset - entry.offset_delta, entry.last_offset, entry.timestamp
                producer.batches.append((base_sequence, entry.last_sequence, *place))
            self._producers[entry.producer_id] = producer

    def entries(self) -> list[ProducerEntry]:
        """The lines of a snapshot."""
        return [_entry(producer_id, producer) for producer_id, producer in self._producers.items()]

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forget the producers that have been silent for `expiration_ms`; their ids.

        Silence is counted from the first call after a producer's last write, by the broker's clock: records
        may bear any time. After a restart the last record's timestamp has to do.
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
        return expired

    def _make_room(self) -> None:
        if len(self._producers) < self.producers_max:
            return
        for producer_id, producer in self._producers.items():
            if not _in_transaction(producer):
                del self._producers[producer_id]
                return


def _in_transaction(producer: _Producer) -> bool:
    return producer.first_offset_of_transaction != NO_TRANSACTION


def _following(sequence: int) -> int:
    return (sequence + 1) & _SEQUENCE_MAX


def _entry(producer_id: int, producer: _Producer) -> ProducerEntry:
    last_sequence, last_offset, offset_delta, timestamp = -1, -1, 0, -1
    if producer.batches:
        _, last_sequence, base_offset, last_offset, timestamp = producer.batches[-1]
        offset_delta = last_offset - base_offset
    return ProducerEntry(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=last_sequence,
        last_offset=last_offset,
        offset_delta=offset_delta,
        timestamp=timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_first_offset=producer.first_offset_of_transaction,
    )
