"""All transactional ids of one partition of __transaction_state.

Requests return decisions; `replay` alone changes the durable state of an id. The shard also remembers which client got
the current epoch, so that a client whose response got lost can repeat its request; after a fail-over such a client gets
one epoch more.

A decision that prepares a commit or an abort has the prepared `TransactionMetadata` as its effect: its markers have to
be written. The effect is repeated when the shard is loaded, and every 5 s until `complete` is called.
"""

from collections.abc import Generator, Iterable

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.core.coordinator_shard import BatchProducer, Decision
from penstock.core.deadlines import Deadlines
from penstock.core.transactions import (
    add_partitions,
    end_transaction,
    init_producer_id,
    listing,
    timeouts,
)
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
)
from penstock.records.internal.record import InternalRecord


class TransactionShard:
    """The transaction coordinator's state in one partition."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self._transactions: dict[str, TransactionMetadata] = {}
        self._deadlines = Deadlines()
        # By transactional id: the identity that a client named, and the one that it got in return.
        self._replaced: dict[str, tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]] = {}

    def __len__(self) -> int:
        return len(self._transactions)

    # The log.

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
        """__transaction_state has no transaction markers."""

    # Timers.

    def loaded(self, now_ms: int) -> None:
        for known in self._transactions.values():
            if known.state.is_prepared:
                self._deadlines.set((known.transactional_id,), now_ms)

    def deadline(self) -> int | None:
        return self._deadlines.next_ms()

    def expire(self, now_ms: int) -> Iterable[Decision[None]]:
        """Abort transactions that timed out, expire unused ids, and have missing markers written."""
        for (transactional_id,) in self._deadlines.due(now_ms):
            # Replaying the decision sets another deadline; this one counts if its records cannot be appended.
            self._deadlines.set((transactional_id,), now_ms + timeouts.RETRY_MS)
            decision = timeouts.expire(self._transactions[transactional_id], now_ms)
            if decision is not None:
                yield decision

    def _set_deadline(self, known: TransactionMetadata) -> None:
        key = (known.transactional_id,)
        deadline_ms = timeouts.deadline_ms(known, self.settings)
        if deadline_ms is None:
            self._deadlines.cancel(key)
        else:
            self._deadlines.set(key, deadline_ms)

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
        decision = init_producer_id.init_producer_id(
            known, request, now_ms, replaced=replaced if is_present else None
        )
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
        return add_partitions.add(self._transactions.get(request.transactional_id), request, now_ms)

    def verify(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> Decision[dict[TopicPartition, ErrorCode]]:
        """AddPartitionsToTxn with `verify_only`."""
        return add_partitions.verify(self._transactions.get(transactional_id), identity, partitions)

    def end(self, request: EndTransaction, now_ms: int) -> Decision[ProducerIdAndEpoch]:
        """EndTxn."""
        decision = end_transaction.end(self._transactions.get(request.transactional_id), request, now_ms)
        if decision.records and isinstance(decision.response, ProducerIdAndEpoch):
            self._replaced[request.transactional_id] = request.identity, decision.response
        return decision

    # Markers.

    def complete(self, transactional_id: str, identity: ProducerIdAndEpoch, now_ms: int) -> Decision[None]:
        """All partitions have the markers of this identity's transaction."""
        known = self._transactions.get(transactional_id)
        if known is None or not known.state.is_prepared or known.identity != identity:
            return Decision(None)  # completed already
        return Decision(None, (end_transaction.complete(known, now_ms).record(),))

    # Describing and listing.

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
