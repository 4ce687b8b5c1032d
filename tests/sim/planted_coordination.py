"""Faults planted by hand in groups and transactions, to test whether the simulation detects them.

Each patches the broker's code. `DETECTED_BY` has, for each, the seed of a `coordination_plan` that detects it;
`python -m tests.sim.find_planted` searches again.
"""

from typing import Any

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import Pending
from penstock.core.groups.classic_rebalance import ClassicRebalancing
from penstock.core.groups.offsets import Offsets
from penstock.core.transactions import end_transaction
from penstock.core.transactions.shard import TransactionShard
from penstock.records.control import Marker
from penstock.services.coordinators import loading
from penstock.services.coordinators.loaded_shard import LoadedShard
from penstock.services.coordinators.shard_writer import ShardWriter
from penstock.services.replicas.replica import Replica
from penstock.services.transactions.produce_verifier import ProduceVerifier
from penstock.storage.recovery_scan import RecoveryScan
from tests.sim.planted import Plant, Planted

SEEDS_MAX = 500

PLANTED: list[Planted] = []


def planted(plant: Plant) -> Plant:
    PLANTED.append(Planted(plant.__name__, plant))
    return plant


@planted
def answered_before_the_high_watermark_passes(patch: pytest.MonkeyPatch) -> None:
    """A coordinator answers as soon as what it decided is in its log, synced or not."""

    def answer_at_once(self: LoadedShard[Any], decision: Any, answer: Any) -> None:
        self._committed(decision)
        if not isinstance(decision.response, Pending):
            answer.set_result(decision.response)

    patch.setattr(LoadedShard, "_answer_when_committed", answer_at_once)


@planted
def gathered_and_not_written(patch: pytest.MonkeyPatch) -> None:
    """What several clients decided in one turn of the loop is answered, and never reaches the log."""

    def flush(self: ShardWriter) -> ErrorCode:
        if self.has_batch:
            self.discard()
            self._on_flushed(ErrorCode.NONE)
        return ErrorCode.NONE

    def answered(self: LoadedShard[Any], code: ErrorCode) -> None:
        uncommitted, self._uncommitted = self._uncommitted, []
        self._high_watermark_reached(uncommitted, code)

    patch.setattr(ShardWriter, "flush", flush)
    patch.setattr(LoadedShard, "_batch_flushed", answered)


@planted
def markers_forgotten_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A transaction that was prepared when the broker went down is never ended."""

    def expire(self: TransactionShard, now_ms: int) -> Any:
        return (decision for decision in genuine(self, now_ms) if decision.records)

    genuine = TransactionShard.expire
    patch.setattr(TransactionShard, "expire", expire)


@planted
def open_transactions_shown(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed data get all up to the high watermark."""
    patch.setattr(Replica, "last_stable_offset", property(lambda self: self.high_watermark))


@planted
def aborted_transactions_not_told(patch: pytest.MonkeyPatch) -> None:
    """Readers of committed data are not told what to leave out."""
    patch.setattr(Replica, "aborted_transactions", lambda self, **_: [])


@planted
def epoch_not_bumped(patch: pytest.MonkeyPatch) -> None:
    """The next transaction goes on in the epoch of the last one."""
    patch.setattr(
        end_transaction, "_settled_identity", lambda known, **_: {"producer_epoch": known.producer_epoch}
    )


@planted
def verification_skipped(patch: pytest.MonkeyPatch) -> None:
    """Partitions take transactional batches without the coordinator's knowledge."""

    async def add(self: ProduceVerifier, *_: Any) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(ProduceVerifier, "add", add)


@planted
def generation_not_bumped(patch: pytest.MonkeyPatch) -> None:
    """A rebalance of a classic group leaves its generation as it was."""

    def complete_join(self: ClassicRebalancing, group: Any, *more: Any) -> None:
        if group.generation > 1:
            group.generation -= 1
        genuine(self, group, *more)

    genuine = ClassicRebalancing.complete_join
    patch.setattr(ClassicRebalancing, "complete_join", complete_join)


@planted
def offsets_count_before_their_transaction_is_committed(patch: pytest.MonkeyPatch) -> None:
    """What is committed in a transaction counts at once, however that ends."""

    def replay(self: Offsets, key: Any, value: Any, *, log_offset: int, producer_id: int | None) -> None:
        genuine(self, key, value, log_offset=log_offset, producer_id=None)
        if producer_id is not None:
            self._pending.setdefault(producer_id, {})

    genuine = Offsets.replay
    patch.setattr(Offsets, "replay", replay)


@planted
def ends_of_transactions_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A group's coordinator that loads passes over markers: offsets of transactions stay pending."""

    def replay(shard: Any, found: Any, *more: Any) -> None:
        if not isinstance(found, Marker):
            genuine(shard, found, *more)

    genuine = loading._replay
    patch.setattr(loading, "_replay", replay)


@planted
def holes_kept_in_logs_of_coordinators(patch: pytest.MonkeyPatch) -> None:
    """What a power cut tore out of a coordinator's log stays there as damage, and no coordinator can load it."""
    patch.setattr(RecoveryScan, "_has_ended", False)


# A seed that detects each.
DETECTED_BY: dict[str, int] = {
    "answered_before_the_high_watermark_passes": 47,
    "gathered_and_not_written": 2,
    "markers_forgotten_after_a_restart": 6,
    "open_transactions_shown": 0,
    "aborted_transactions_not_told": 0,
    "epoch_not_bumped": 0,
    "verification_skipped": 0,
    "generation_not_bumped": 8,
    "offsets_count_before_their_transaction_is_committed": 63,
    "ends_of_transactions_not_loaded": 8,
    "holes_kept_in_logs_of_coordinators": 448,
}
