"""InitProducerId: who has a transactional id, and who is fenced."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.transactions.settings import TransactionSettings
from penstock.core.transactions.states import TransactionState
from penstock.core.transactions.transaction import EPOCH_MAX, NO_IDENTITY, NO_TIMEOUT, ProducerIdAndEpoch
from tests.core.transactions.coordinator import MINUTE_MS, T0, T1, Coordinator

FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
TWO_PHASE = TransactionSettings(two_phase_commit=True)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_new_id_begins_with_epoch_0(coordinator: Coordinator):
    assert coordinator.initialize() == ProducerIdAndEpoch(1001, 0)
    assert coordinator.state() is TransactionState.EMPTY


def test_the_next_client_gets_the_next_epoch_and_fences_the_first(
    coordinator: Coordinator,
):
    first = coordinator.initialize()
    second = coordinator.initialize()
    assert second == ProducerIdAndEpoch(first.producer_id, 1)
    assert coordinator.add(first) is FENCED
    assert coordinator.end(first) is FENCED
    assert coordinator.add(second) is ErrorCode.NONE


def test_ids_do_not_disturb_one_another(coordinator: Coordinator):
    one, other = coordinator.initialize("one"), coordinator.initialize("other")
    assert one.producer_id != other.producer_id
    assert coordinator.add(one, name="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_open_transaction_is_aborted_first(coordinator: Coordinator):
    first = coordinator.initialize()
    coordinator.add(first)
    assert coordinator.initialize() is CONCURRENT
    assert coordinator.state() is TransactionState.PREPARE_ABORT
    assert coordinator.initialize() is CONCURRENT
    (aborted,) = coordinator.finish()
    assert aborted.identity == ProducerIdAndEpoch(
        first.producer_id, 1
    )  # the marker fences the old one in the partitions
    assert aborted.partitions == {T0}
    assert coordinator.initialize() == ProducerIdAndEpoch(first.producer_id, 2)


def test_a_client_that_goes_on_after_an_error_keeps_its_id(coordinator: Coordinator):
    first = coordinator.initialize()
    second = coordinator.initialize(current=first)
    assert second == ProducerIdAndEpoch(first.producer_id, 1)
    assert coordinator.initialize(current=first) == second, "its answer got lost, and it asks again"
    assert coordinator.initialize(current=second) == ProducerIdAndEpoch(first.producer_id, 2)
    assert coordinator.initialize(current=first) is FENCED


def test_a_client_whose_id_another_has_taken_does_not_get_it_back(coordinator: Coordinator):
    first = coordinator.initialize()
    coordinator.initialize()
    assert coordinator.initialize(current=first) is FENCED


def test_after_a_fail_over_a_repeated_request_is_fenced_rather_than_guessed(coordinator: Coordinator):
    first = coordinator.initialize()
    coordinator.initialize(current=first)
    coordinator.fail_over()
    assert coordinator.initialize(current=first) is FENCED


def test_a_wrong_producer_id_is_fenced(coordinator: Coordinator):
    coordinator.initialize()
    assert coordinator.initialize(current=ProducerIdAndEpoch(5, 0)) is FENCED


def test_an_unknown_id_takes_whatever_the_client_names(coordinator: Coordinator):
    # It may have expired here while the client was silent.
    assert coordinator.initialize(current=ProducerIdAndEpoch(5, 3)) == ProducerIdAndEpoch(1001, 0)


def exhaust(coordinator: Coordinator) -> ProducerIdAndEpoch:
    coordinator.initialize()
    return coordinator.come_to_last_epoch()


def test_used_up_epochs_bring_a_new_producer_id(coordinator: Coordinator):
    last = exhaust(coordinator)
    following = coordinator.initialize()
    assert following.epoch == 0
    assert following.producer_id != last.producer_id
    assert coordinator.describe().previous_producer_id == last.producer_id
    assert coordinator.add(last) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_client_repeats_the_request_that_used_the_epochs_up(coordinator: Coordinator):
    last = exhaust(coordinator)
    following = coordinator.initialize(current=last)
    assert following.epoch == 0
    assert coordinator.initialize(current=last) == following


def test_fencing_the_last_epoch_brings_a_new_producer_id(coordinator: Coordinator):
    last = exhaust(coordinator)
    coordinator.add(last)
    assert coordinator.initialize() is CONCURRENT
    (aborted,) = coordinator.finish()
    assert aborted.identity == ProducerIdAndEpoch(last.producer_id, EPOCH_MAX)
    assert coordinator.initialize().epoch == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * MINUTE_MS + 1])
def test_a_timeout_out_of_bounds_is_refused(coordinator: Coordinator, timeout_ms: int):
    assert coordinator.initialize(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not coordinator.log


def test_two_phase_commit_needs_its_setting(coordinator: Coordinator):
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert coordinator.initialize(two_phase=True) is refused
    assert coordinator.initialize(two_phase=True, keep_prepared=True) is refused


def test_a_prepared_transaction_outlives_its_client_and_any_timeout():
    coordinator = Coordinator(TWO_PHASE)
    first = coordinator.initialize(two_phase=True)
    assert coordinator.describe().timeout_ms == NO_TIMEOUT
    coordinator.add(first, T0, T1, version=2)
    coordinator.expire(later_ms=10 * 365 * 24 * 60 * MINUTE_MS)
    assert coordinator.state() is TransactionState.ONGOING


def test_a_prepared_transaction_is_committed_by_its_producer_id_and_epoch_after_a_fail_over():
    coordinator = Coordinator(TWO_PHASE)
    first = coordinator.initialize(two_phase=True)
    coordinator.add(first, version=2)
    coordinator.fail_over()
    assert coordinator.end(first, version=2) == ProducerIdAndEpoch(first.producer_id, 1)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT


def test_a_kept_transaction_can_only_be_ended_and_only_by_the_new_client():
    coordinator = Coordinator(TWO_PHASE)
    first = coordinator.initialize(two_phase=True)
    coordinator.add(first, T0, version=2)
    answer = coordinator.ask_to_initialize(two_phase=True, keep_prepared=True)
    assert answer.ongoing == first
    second = answer.identity
    assert second == ProducerIdAndEpoch(first.producer_id, 1)
    coordinator.fail_over()
    assert coordinator.add(first, T1, version=2) is FENCED
    assert coordinator.add(second, T1, version=2) is ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(first, version=2) is FENCED
    third = coordinator.end(second, version=2)
    assert third == ProducerIdAndEpoch(first.producer_id, 2)
    assert coordinator.end(second, version=2) is CONCURRENT
    (prepared,) = coordinator.finish()
    assert (prepared.identity, prepared.partitions) == (third, {T0})
    assert prepared.state is TransactionState.PREPARE_COMMIT
    assert coordinator.end(second, version=2) == third
    assert coordinator.add(third, version=2) is ErrorCode.NONE


def test_a_kept_transaction_can_be_kept_again_and_again():
    coordinator = Coordinator(TWO_PHASE)
    first = coordinator.initialize(two_phase=True)
    coordinator.add(first, version=2)
    for number in range(1, 4):
        answer = coordinator.ask_to_initialize(two_phase=True, keep_prepared=True)
        assert answer == (ProducerIdAndEpoch(first.producer_id, number), first)
    assert coordinator.end(answer.identity, commit=False, version=2) == ProducerIdAndEpoch(
        first.producer_id, 4
    )


def test_keeping_with_used_up_epochs_moves_to_a_new_producer_id():
    coordinator = Coordinator(TWO_PHASE)
    last = exhaust(coordinator)
    coordinator.add(last, version=2)
    answer = coordinator.ask_to_initialize(two_phase=True, keep_prepared=True)
    assert answer.ongoing == last
    assert answer.identity.epoch == 0
    assert answer.identity.producer_id != last.producer_id
    after = coordinator.end(answer.identity, version=2)
    assert after == ProducerIdAndEpoch(answer.identity.producer_id, 1)
    (prepared,) = coordinator.finish()
    assert prepared.identity == ProducerIdAndEpoch(last.producer_id, EPOCH_MAX), (
        "markers bear the id of the records"
    )
    assert coordinator.describe().identity == after
    assert coordinator.end(answer.identity, version=2) == after


def test_keeping_nothing_is_an_ordinary_beginning():
    coordinator = Coordinator(TWO_PHASE)
    answer = coordinator.ask_to_initialize(two_phase=True, keep_prepared=True)
    assert answer == (ProducerIdAndEpoch(1001, 0), NO_IDENTITY)


def test_not_keeping_aborts_a_kept_transaction():
    coordinator = Coordinator(TWO_PHASE)
    first = coordinator.initialize(two_phase=True)
    coordinator.add(first, version=2)
    kept = coordinator.initialize(two_phase=True, keep_prepared=True)
    assert coordinator.initialize(two_phase=True) is CONCURRENT
    (aborted,) = coordinator.finish()
    assert aborted.identity == ProducerIdAndEpoch(first.producer_id, kept.epoch + 1)
    assert coordinator.initialize(two_phase=True) == ProducerIdAndEpoch(first.producer_id, kept.epoch + 2)
