"""A coordinator in a test: decisions are written to a list and replayed, and it can fail over at any moment."""

from typing import Any

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicPartition
from penstock.core.coordinator_shard import Decision
from penstock.core.transactions.requests import AddPartitions, EndTransaction, InitProducer
from penstock.core.transactions.settings import TransactionSettings
from penstock.core.transactions.shard import TransactionShard
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch, TransactionMetadata
from penstock.records.internal import transaction_records
from penstock.records.internal.record import InternalRecord

MINUTE_MS = 60_000
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class Coordinator:
    """One shard, its log, and a clock. Markers are written when `finish` is called."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[TransactionMetadata] = []
        self.next_producer_id = 1000
        self.shard = TransactionShard(self.settings)
        self.shard.loaded(self.now_ms)

    def fail_over(self) -> None:
        """Another broker takes over: all it has is the log."""
        self.shard = TransactionShard(self.settings)
        self.effects = []
        for offset, (key, value) in enumerate(self.log):
            record = transaction_records.decode(key, value)
            assert record is not None
            self.shard.replay(record, offset=offset)
        self.shard.loaded(self.now_ms)
        self.expire()

    def carry_out(self, decision: Decision[Any]) -> Any:
        for record in decision.records:
            self._write(record)
        self.effects += decision.effects
        if isinstance(decision.response, Refusal):
            return decision.response.code
        return decision.response

    def _write(self, record: InternalRecord) -> None:
        key, value = transaction_records.encode(record)
        self.log.append((key, value))
        decoded = transaction_records.decode(key, value)
        assert decoded == record
        self.shard.replay(record, offset=len(self.log) - 1)

    def expire(self, later_ms: int = 0) -> None:
        self.now_ms += later_ms
        for decision in self.shard.expire(self.now_ms):
            self.carry_out(decision)

    def finish(self) -> list[TransactionMetadata]:
        """The markers of everything prepared are written."""
        finished, self.effects = self.effects, []
        for prepared in finished:
            decision = self.shard.complete(prepared.transactional_id, prepared.identity, self.now_ms)
            self.carry_out(decision)
        return finished

    def come_to_last_epoch(self, name: str = "me") -> ProducerIdAndEpoch:
        """As if so many epochs had been given out that the next one needs a new producer id."""
        last = self.describe(name).changed(producer_epoch=EPOCH_MAX - 1)
        self._write(last.record())
        return ProducerIdAndEpoch(*last.identity)

    # What clients ask.

    def initialize(self, name: str = "me", current: ProducerIdAndEpoch | None = None, **options: Any) -> Any:
        """The new identity, or the error."""
        answer = self.ask_to_initialize(name, current, **options)
        return answer if isinstance(answer, ErrorCode) else answer.identity

    def ask_to_initialize(
        self,
        name: str = "me",
        current: ProducerIdAndEpoch | None = None,
        *,
        timeout_ms: int = MINUTE_MS,
        **options: Any,
    ) -> Any:
        self.next_producer_id += 1
        request = InitProducer(name, timeout_ms, self.next_producer_id, current, **options)
        return self.carry_out(self.shard.initialize(request, self.now_ms))

    def add(
        self, identity: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "me", version: int = 0
    ) -> ErrorCode:
        request = AddPartitions(name, identity, frozenset(partitions or (T0,)), version)
        return self.carry_out(self.shard.add_partitions(request, self.now_ms)) or ErrorCode.NONE

    def end(
        self, identity: ProducerIdAndEpoch, *, commit: bool = True, name: str = "me", version: int = 0
    ) -> Any:
        """Who the producer is then, or the error."""
        self.next_producer_id += 1
        request = EndTransaction(name, identity, commit, version, self.next_producer_id)
        return self.carry_out(self.shard.end(request, self.now_ms))

    def describe(self, name: str = "me") -> Any:
        return self.carry_out(self.shard.describe(name))

    def state(self, name: str = "me") -> TransactionState:
        state = self.describe(name).state
        assert isinstance(state, TransactionState)
        return state
