"""What follows a batch that was turned away for a passing reason is turned away too, and for how long."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.producer_state import Duplicate, ProducerStates
from penstock.core.rejected_sequences import PRODUCERS_MAX, REMEMBERED_MS, RejectedSequences
from tests.core.test_producer_state import LAST, NONE, OUT_OF_ORDER, batch, having

TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS
NO_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def turning_away(states, *headers, now_ms=0, reason=TOO_FEW):
    for header in headers:
        states.rejected_sequences.note(header, reason, now_ms=now_ms)
    return states


def test_a_gap_of_the_brokers_making_is_answered_with_its_reason():
    states = turning_away(having(batch(0)), batch(1), batch(2, count=3))
    assert states.check(batch(5), now_ms=1) is TOO_FEW
    assert states.check(batch(6), now_ms=1) is OUT_OF_ORDER, "nobody turned away what is missing before it"


def test_the_newest_reason_counts():
    states = turning_away(having(batch(0)), batch(1))
    turning_away(states, batch(2), reason=NO_LEADER)
    assert states.check(batch(3), now_ms=1) is NO_LEADER


def test_what_was_turned_away_is_taken_when_it_comes_again_and_so_is_all_that_follows():
    states = turning_away(having(batch(0)), batch(1), batch(2), batch(3))
    for sequence in range(1, 6):
        assert states.check(batch(sequence), now_ms=1) is NONE
        states.replay(batch(sequence))


def test_what_lies_in_the_log_is_known_again_though_it_was_turned_away():
    states = turning_away(having(batch(0, offset=9)), batch(0), batch(1))
    assert states.check(batch(0), now_ms=1) == Duplicate(9, 9, 1000)
    assert states.check(batch(2), now_ms=1) is TOO_FEW


def test_a_replica_that_copied_what_it_had_turned_away_goes_on():
    """The producer found the leader, and this broker became the next one."""
    states = turning_away(having(batch(0)), batch(1), reason=NO_LEADER)
    states.replay(batch(1))
    assert states.check(batch(2), now_ms=1) is NONE


def test_a_producer_nobody_knows_begins_with_what_was_turned_away():
    states = turning_away(ProducerStates(), batch(0), batch(1))
    assert states.check(batch(2), now_ms=1) is TOO_FEW
    assert states.check(batch(0), now_ms=1) is NONE
    assert states.check(batch(0, producer=8), now_ms=1) is NONE


def test_an_epoch_that_began_with_a_gap_of_the_brokers_making_is_not_out_of_order():
    states = turning_away(having(batch(0)), batch(0, epoch=1))
    assert states.check(batch(1, epoch=1), now_ms=1) is TOO_FEW
    assert states.check(batch(0, epoch=1), now_ms=1) is NONE
    assert states.check(batch(1, epoch=2), now_ms=1) is OUT_OF_ORDER, (
        "of another epoch nothing was turned away"
    )


def test_sequences_go_around_the_largest():
    states = turning_away(having(batch(LAST - 1)), batch(LAST, count=2))
    assert states.check(batch(1), now_ms=1) is TOO_FEW


def test_after_a_while_a_gap_is_the_producers_own():
    states = turning_away(having(batch(0)), batch(1), now_ms=1_000)
    turning_away(states, batch(2), now_ms=1_000 + REMEMBERED_MS // 2)
    assert states.check(batch(3), now_ms=999 + REMEMBERED_MS) is TOO_FEW
    assert states.check(batch(3), now_ms=1_000 + REMEMBERED_MS) is OUT_OF_ORDER, (
        "counted from the first one on"
    )


def test_a_producer_that_comes_back_and_is_turned_away_again_has_its_time_anew():
    states = turning_away(having(batch(0)), batch(1), batch(2), now_ms=0)
    turning_away(states, batch(1), batch(2), now_ms=20_000)
    assert states.check(batch(3), now_ms=19_999 + REMEMBERED_MS) is TOO_FEW


@pytest.mark.parametrize(("later_ms", "left"), [(0, PRODUCERS_MAX), (REMEMBERED_MS, 1)])
def test_it_does_not_grow_without_bound(later_ms, left):
    rejected_sequences = RejectedSequences()
    for producer in range(PRODUCERS_MAX + 5):
        rejected_sequences.note(batch(0, producer=producer), TOO_FEW, now_ms=0)
    rejected_sequences.note(batch(0, producer=2**40), TOO_FEW, now_ms=later_ms)
    assert len(rejected_sequences) == left
    assert rejected_sequences.reason(batch(1, producer=0), now_ms=0) is None
    assert rejected_sequences.reason(batch(1, producer=2**40), now_ms=later_ms) is TOO_FEW
