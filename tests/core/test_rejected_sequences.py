"""Rejected sequences: batches that follow one rejected with a retriable error get the same error, for a while."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.producer_state import Duplicate, ProducerStates
from penstock.core.rejected_sequences import PRODUCERS_MAX, REMEMBERED_MS, RejectedSequences
from tests.core.test_producer_state import LAST, NONE, OUT_OF_ORDER, batch, having

TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS
NO_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def rejecting(states, *headers, now_ms=0, reason=TOO_FEW):
    for header in headers:
        states.rejected_sequences.note(header, reason, now_ms=now_ms)
    return states


def test_a_gap_left_by_rejected_batches_is_answered_with_the_error_of_the_rejection():
    states = rejecting(having(batch(0)), batch(1), batch(2, count=3))
    assert states.check(batch(5), now_ms=1) is TOO_FEW
    assert states.check(batch(6), now_ms=1) is OUT_OF_ORDER, "batch 5 is missing and was not rejected"


def test_the_error_of_the_last_rejection_counts():
    states = rejecting(having(batch(0)), batch(1))
    rejecting(states, batch(2), reason=NO_LEADER)
    assert states.check(batch(3), now_ms=1) is NO_LEADER


def test_rejected_batches_are_accepted_when_resent_and_so_are_those_that_follow():
    states = rejecting(having(batch(0)), batch(1), batch(2), batch(3))
    for sequence in range(1, 6):
        assert states.check(batch(sequence), now_ms=1) is NONE
        states.replay(batch(sequence))


def test_a_rejected_batch_that_is_in_the_log_is_a_duplicate():
    states = rejecting(having(batch(0, offset=9)), batch(0), batch(1))
    assert states.check(batch(0), now_ms=1) == Duplicate(9, 9, 1000)
    assert states.check(batch(2), now_ms=1) is TOO_FEW


def test_a_follower_that_replicated_the_rejected_batch_accepts_the_next_one():
    """The producer resent the batch to the leader, and this broker became leader afterwards."""
    states = rejecting(having(batch(0)), batch(1), reason=NO_LEADER)
    states.replay(batch(1))
    assert states.check(batch(2), now_ms=1) is NONE


def test_an_unknown_producer_whose_first_batches_were_rejected_begins_with_them():
    states = rejecting(ProducerStates(), batch(0), batch(1))
    assert states.check(batch(2), now_ms=1) is TOO_FEW
    assert states.check(batch(0), now_ms=1) is NONE
    assert states.check(batch(0, producer=8), now_ms=1) is NONE


def test_a_new_epoch_whose_first_batch_was_rejected_is_not_out_of_order():
    states = rejecting(having(batch(0)), batch(0, epoch=1))
    assert states.check(batch(1, epoch=1), now_ms=1) is TOO_FEW
    assert states.check(batch(0, epoch=1), now_ms=1) is NONE
    assert states.check(batch(1, epoch=2), now_ms=1) is OUT_OF_ORDER, "no batch of epoch 2 was rejected"


def test_rejected_sequences_wrap_around_at_the_largest():
    states = rejecting(having(batch(LAST - 1)), batch(LAST, count=2))
    assert states.check(batch(1), now_ms=1) is TOO_FEW


def test_rejections_are_forgotten_after_a_while():
    states = rejecting(having(batch(0)), batch(1), now_ms=1_000)
    rejecting(states, batch(2), now_ms=1_000 + REMEMBERED_MS // 2)
    assert states.check(batch(3), now_ms=999 + REMEMBERED_MS) is TOO_FEW
    assert states.check(batch(3), now_ms=1_000 + REMEMBERED_MS) is OUT_OF_ORDER, (
        "counted from the first rejection"
    )


def test_a_rejection_of_resent_batches_is_remembered_from_the_new_rejection_on():
    states = rejecting(having(batch(0)), batch(1), batch(2), now_ms=0)
    rejecting(states, batch(1), batch(2), now_ms=20_000)
    assert states.check(batch(3), now_ms=19_999 + REMEMBERED_MS) is TOO_FEW


@pytest.mark.parametrize(("later_ms", "left"), [(0, PRODUCERS_MAX), (REMEMBERED_MS, 1)])
def test_the_number_of_remembered_producers_is_bounded(later_ms, left):
    rejected_sequences = RejectedSequences()
    for producer in range(PRODUCERS_MAX + 5):
        rejected_sequences.note(batch(0, producer=producer), TOO_FEW, now_ms=0)
    rejected_sequences.note(batch(0, producer=2**40), TOO_FEW, now_ms=later_ms)
    assert len(rejected_sequences) == left
    assert rejected_sequences.reason(batch(1, producer=0), now_ms=0) is None
    assert rejected_sequences.reason(batch(1, producer=2**40), now_ms=later_ms) is TOO_FEW
