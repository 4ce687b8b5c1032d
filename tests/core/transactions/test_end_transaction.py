"""EndTxn, before and in version 2: what ends, what is a repetition, what comes too late."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch
from tests.core.transactions.coordinator import MINUTE_MS, T0, T1, Coordinator

FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def me(coordinator: Coordinator) -> ProducerIdAndEpoch:
    identity = coordinator.initialize()
    assert isinstance(identity, ProducerIdAndEpoch)
    return identity


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_the_outcome_is_certain_then_markers_are_written_then_it_is_complete(
    coordinator: Coordinator, me: ProducerIdAndEpoch, commit: bool, version: int
):
    coordinator.add(me, T0, T1, version=version)
    after = coordinator.end(me, commit=commit, version=version)
    assert after == ProducerIdAndEpoch(me.producer_id, 1 if version == 2 else 0)
    (prepared,) = coordinator.finish()
    assert prepared.state.label == ("PrepareCommit" if commit else "PrepareAbort")
    assert prepared.identity == after
    assert prepared.partitions == {T0, T1}
    assert coordinator.describe().partitions == frozenset()
    assert coordinator.state().label == ("CompleteCommit" if commit else "CompleteAbort")
    assert coordinator.add(after, version=version) is ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 2])
def test_an_unknown_transactional_id_or_producer_id_is_refused_and_a_wrong_epoch_fenced(
    coordinator: Coordinator, me: ProducerIdAndEpoch, version: int
):
    assert coordinator.end(me, name="nobody", version=version) is MAPPING
    assert coordinator.end(ProducerIdAndEpoch(5, 0), version=version) is MAPPING
    assert coordinator.end(ProducerIdAndEpoch(me.producer_id, 7), version=version) is FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_nothing_can_change_an_outcome(coordinator: Coordinator, me: ProducerIdAndEpoch, version: int):
    coordinator.add(me, version=version)
    coordinator.end(me, commit=True, version=version)
    assert coordinator.end(me, commit=False, version=version) is INVALID
    assert coordinator.end(me, commit=True, version=version) is CONCURRENT
    coordinator.finish()
    assert coordinator.end(me, commit=False, version=version) is INVALID
    assert coordinator.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_request_is_answered_as_the_first(
    coordinator: Coordinator, me: ProducerIdAndEpoch, commit: bool, version: int
):
    coordinator.add(me, version=version)
    after = coordinator.end(me, commit=commit, version=version)
    coordinator.fail_over()
    assert coordinator.end(me, commit=commit, version=version) is CONCURRENT
    coordinator.finish()
    assert coordinator.end(me, commit=commit, version=version) == after


def test_in_version_2_a_late_request_never_hits_a_later_transaction(
    coordinator: Coordinator, me: ProducerIdAndEpoch
):
    coordinator.add(me, version=2)
    after = coordinator.end(me, version=2)
    coordinator.finish()
    coordinator.add(after, version=2)
    for commit in (True, False):
        assert coordinator.end(me, commit=commit, version=2) is FENCED
    assert coordinator.state() is TransactionState.ONGOING


def test_before_version_2_it_does_which_is_why_there_is_version_2(
    coordinator: Coordinator, me: ProducerIdAndEpoch
):
    coordinator.add(me)
    coordinator.end(me)
    coordinator.finish()
    coordinator.add(me)
    assert coordinator.end(me, commit=True) == me, "perhaps the first one, sent again"


def test_before_version_2_nothing_ends_that_never_began(coordinator: Coordinator, me: ProducerIdAndEpoch):
    assert coordinator.end(me, commit=True) is INVALID
    assert coordinator.end(me, commit=False) is INVALID


def test_in_version_2_an_abort_of_nothing_gives_a_new_epoch(coordinator: Coordinator, me: ProducerIdAndEpoch):
    assert coordinator.end(me, commit=True, version=2) is INVALID
    second = coordinator.end(me, commit=False, version=2)
    assert second == ProducerIdAndEpoch(me.producer_id, 1)
    coordinator.finish()
    assert coordinator.end(second, commit=True, version=2) is INVALID
    third = coordinator.end(second, commit=False, version=2)
    assert third == ProducerIdAndEpoch(me.producer_id, 2)
    coordinator.finish()
    assert coordinator.end(second, commit=False, version=2) == third


def test_an_epoch_from_the_future_is_fenced_while_markers_are_written(
    coordinator: Coordinator, me: ProducerIdAndEpoch
):
    coordinator.add(me, version=2)
    after = coordinator.end(me, version=2)
    assert coordinator.end(after, version=2) is FENCED


def test_in_version_2_used_up_epochs_bring_a_new_producer_id(
    coordinator: Coordinator, me: ProducerIdAndEpoch
):
    last = coordinator.come_to_last_epoch()
    assert last.producer_id == me.producer_id
    coordinator.add(last, version=2)
    after = coordinator.end(last, version=2)
    assert after.epoch == 0
    assert after.producer_id != last.producer_id
    assert coordinator.end(last, version=2) is CONCURRENT
    coordinator.fail_over()
    (prepared,) = coordinator.finish()
    assert prepared.identity == ProducerIdAndEpoch(last.producer_id, EPOCH_MAX)
    assert coordinator.describe().identity == after
    assert coordinator.end(last, version=2) == after, "a repetition"
    assert coordinator.add(after, version=2) is ErrorCode.NONE
    assert coordinator.end(last, version=2) is MAPPING


@pytest.mark.parametrize("version", [0, 2])
def test_a_client_that_uses_the_epoch_reserved_for_fencing_does_not_block_the_transactional_id(
    coordinator: Coordinator, me: ProducerIdAndEpoch, version: int
):
    coordinator.add(coordinator.come_to_last_epoch(), version=version)
    coordinator.expire(later_ms=MINUTE_MS)
    coordinator.finish()
    guessed = ProducerIdAndEpoch(me.producer_id, EPOCH_MAX)
    assert coordinator.add(guessed, version=version) is ErrorCode.NONE
    coordinator.expire(later_ms=MINUTE_MS)
    coordinator.finish()
    assert coordinator.state() is TransactionState.COMPLETE_ABORT
    assert coordinator.end(guessed, commit=False, version=2) != guessed
    coordinator.finish()
    assert coordinator.initialize().epoch in (0, 1)


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_fenced(
    coordinator: Coordinator, me: ProducerIdAndEpoch, version: int
):
    coordinator.add(me, version=version)
    assert coordinator.shard.deadline() == coordinator.now_ms + MINUTE_MS
    coordinator.expire(later_ms=MINUTE_MS - 1)
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.expire(later_ms=1)
    assert coordinator.end(me, commit=True, version=version) in (FENCED, INVALID)
    (aborted,) = coordinator.finish()
    assert aborted.identity == ProducerIdAndEpoch(me.producer_id, 1)
    assert coordinator.state() is TransactionState.COMPLETE_ABORT
    assert coordinator.end(me, commit=True, version=version) in (FENCED, INVALID)
    assert coordinator.add(me, version=version) is FENCED


def test_time_counts_from_the_first_partition(coordinator: Coordinator, me: ProducerIdAndEpoch):
    coordinator.add(me, T0)
    coordinator.expire(later_ms=MINUTE_MS - 1)
    coordinator.add(me, T1)
    coordinator.expire(later_ms=1)
    assert coordinator.state() is TransactionState.PREPARE_ABORT


def test_a_timeout_survives_a_fail_over(coordinator: Coordinator, me: ProducerIdAndEpoch):
    coordinator.add(me)
    coordinator.fail_over()
    coordinator.expire(later_ms=MINUTE_MS)
    assert coordinator.state() is TransactionState.PREPARE_ABORT


def test_a_coordinator_that_restarts_finishes_what_was_prepared(
    coordinator: Coordinator, me: ProducerIdAndEpoch
):
    coordinator.add(me, version=2)
    after = coordinator.end(me, version=2)
    coordinator.fail_over()
    (prepared,) = coordinator.finish()
    assert prepared.identity == after
    assert coordinator.state() is TransactionState.COMPLETE_COMMIT


def test_markers_are_asked_for_again_until_they_are_written(coordinator: Coordinator, me: ProducerIdAndEpoch):
    coordinator.add(me)
    coordinator.end(me)
    coordinator.effects = []
    coordinator.expire(later_ms=5_000)
    assert len(coordinator.effects) == 1
    coordinator.expire(later_ms=5_000)
    assert len(coordinator.effects) == 2
    coordinator.finish()
    coordinator.expire(later_ms=60_000)
    assert not coordinator.effects


def test_completing_something_else_changes_nothing(coordinator: Coordinator, me: ProducerIdAndEpoch):
    coordinator.add(me)
    for identity, name in ((me, "me"), (ProducerIdAndEpoch(5, 5), "me"), (me, "nobody")):
        assert not coordinator.shard.complete(name, identity, coordinator.now_ms).records
    coordinator.end(me)
    assert not coordinator.shard.complete("me", ProducerIdAndEpoch(5, 5), coordinator.now_ms).records
