"""All transactional ids of one partition of __transaction_state.

Requests return decisions; `replay` alone changes what is known of an id. Beside that, the shard remembers whom an
epoch was given to, so that a client whose answer got lost can ask again; a fail-over forgets it, and the client gets
one epoch more.

A decision that prepares a commit or an abort has the prepared `TransactionMetadata` as its effect: its markers have to
be written. It comes again when the shard is loaded, and every few seconds until `complete` is told.
"""

from collections.abc import Generator, Iterable
from typing import Final

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.core.coordination import BatchProducer, Decision
from penstock.core.deadlines import Deadlines
from penstock.core.transactions import adding, ending, initializing, listing
from penstock.core.transactions.requests import (
    AddPartitions,
    EndTransaction,
    Initialized,
    InitProducer,
    Listed,
    ListFilter,
)
from penstock.core.transactions.settings import TransactionSettings
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import (
    ProducerIdAndEpoch,
    TransactionMetadata,
    read_record,
    tombstone,
)
from penstock.records.internal.record import InternalRecord

# After this, what could not be written, or was lost with an effect, is asked for again.
_AGAIN_MS: Final = 5_000


class TransactionShard:
    """The transaction coordinator's state in one partition."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self._transactions: dict[str, TransactionMetadata] = {}
        self._deadlines = Deadlines()
        # Whom the present identity of an id was given to, and that identity.
        self._replaced: dict[str, tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]] = {}

    def __len__(self) -> int:
        return len(self._transactions)

    # The shard's life.

    def replay(
        self,
        record: InternalRecord,
        *,
        offset: int,  # noqa: ARG002
        producer: BatchProducer | None = None,  # noqa: ARG002
    ) -> None:
        transactional_id, known = read_record(record)
        if known is None:
            self._transactions.pop(transactional_id, None)
            self._replaced.pop(transactional_id, None)
            self._deadlines.cancel((transactional_id,))
            return
        self._transactions[transactional_id] = known
        self._set_deadline(known)

    def replay_marker(self, producer: BatchProducer, *, committed: bool, offset: int) -> None:
        """Nobody writes to __transaction_state in a transaction."""

    def loaded(self, now_ms: int) -> None:
        for known in self._transactions.values():
            if known.state.is_prepared:
                self._deadlines.set((known.transactional_id,), now_ms)

    def deadline(self) -> int | None:
        return self._deadlines.next_ms()

    def expire(self, now_ms: int) -> Iterable[Decision[None]]:
        """Abort what took too long, forget what nobody uses, have markers written that are still missing."""
        for (transactional_id,) in self._deadlines.due(now_ms):
            known = self._transactions[transactional_id]
            self._deadlines.set((transactional_id,), now_ms + _AGAIN_MS)  # replaying a decision sets another
            if known.state.is_idle:
                yield Decision(None, (tombstone(transactional_id),))
            elif known.state.is_prepared:
                yield Decision(None, effects=(known,))
            elif known.may_time_out:
                yield ending.prepare(None, ending.abort_and_fence(known, now_ms))

    def _set_deadline(self, known: TransactionMetadata) -> None:
        key = (known.transactional_id,)
        if known.may_time_out:
            self._deadlines.set(key, known.started_ms + known.timeout_ms)
        elif known.state.is_idle:
            self._deadlines.set(key, known.updated_ms + self.settings.expiration_ms)
        elif known.state.is_prepared:
            self._deadlines.set(key, known.updated_ms + _AGAIN_MS)
        else:
            self._deadlines.cancel(key)

    # Requests of producers.

    def initialize(self, request: InitProducer, now_ms: int) -> Decision[Initialized]:
        """InitProducerId."""
        refusal = self._init_refusal(request)
        if refusal is not None:
            return Decision.refused(refusal)
        transactional_id = request.transactional_id
        known = self._transactions.get(transactional_id)
        replaced, given = self._replaced.get(transactional_id, (None, None))
        is_present = known is not None and given == known.identity
        decision = initializing.initialize(known, request, now_ms, replaced=replaced if is_present else None)
        if isinstance(decision.response, Initialized) and request.current is not None:
            self._replaced[transactional_id] = request.current, decision.response.identity
        return decision

    def _init_refusal(self, request: InitProducer) -> ErrorCode | None:
        is_two_phase = request.two_phase or request.keep_prepared
        if is_two_phase and not self.settings.two_phase_commit:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if request.keep_prepared and not request.two_phase:
            return ErrorCode.INVALID_REQUEST
        if not request.two_phase and not 0 < request.timeout_ms <= self.settings.timeout_max_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return None

    def add_partitions(self, request: AddPartitions, now_ms: int) -> Decision[None]:
        """AddPartitionsToTxn, AddOffsetsToTxn, and the first write to a partition in version 2."""
        return adding.add(self._transactions.get(request.transactional_id), request, now_ms)

    def verify(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> Decision[dict[TopicPartition, ErrorCode]]:
        """AddPartitionsToTxn that adds nothing."""
        return adding.verify(self._transactions.get(transactional_id), identity, partitions)

    def end(self, request: EndTransaction, now_ms: int) -> Decision[ProducerIdAndEpoch]:
        """EndTxn."""
        decision = ending.end(self._transactions.get(request.transactional_id), request, now_ms)
        if decision.records and isinstance(decision.response, ProducerIdAndEpoch):
            self._replaced[request.transactional_id] = request.identity, decision.response
        return decision

    # Markers.

    def complete(self, transactional_id: str, identity: ProducerIdAndEpoch, now_ms: int) -> Decision[None]:
        """The markers of this identity's transaction are in every partition."""
        known = self._transactions.get(transactional_id)
        if known is None or not known.state.is_prepared or known.identity != identity:
            return Decision(None)  # somebody else was faster
        return Decision(None, (ending.complete(known, now_ms).record(),))

    # Looking.

    def describe(self, transactional_id: str) -> Decision[TransactionMetadata]:
        """DescribeTransactions."""
        return listing.describe(self._transactions.get(transactional_id))

    def list(self, wanted: ListFilter, now_ms: int) -> Generator[None, None, Decision[Listed]]:
        """ListTransactions."""
        return listing.list_all(self._transactions, wanted, now_ms)

    def states(self) -> dict[TransactionState, int]:
        """How many ids are in each state."""
        counts: dict[TransactionState, int] = {}
        for known in self._transactions.values():
            counts[known.state] = counts.get(known.state, 0) + 1
        return counts
