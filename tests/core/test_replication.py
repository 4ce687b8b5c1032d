"""A leader's decisions about its followers."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.base.errors import ErrorCode
from penstock.core.isr_proposals import Proposal, ProposalOutcome, Verdict
from penstock.core.replication import UNKNOWN, EpochEnd, Follower, Leadership, truncation_offset

LAG_MS = 100
NODE = 1


class State(NamedTuple):
    """A partition's state, as the controller wrote it."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...] = (1, 2, 3)
    partition_epoch: int = 0
    leader_epoch: int = 5
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def leading(*isr: int, start_offset: int = 0, now_ms: int = 0) -> Leadership:
    return Leadership(State(isr), node_id=NODE, start_offset=start_offset, now_ms=now_ms)


def fetched(
    leadership: Leadership, node_id: int, offset: int, *, end: int, now_ms: int = 0, epoch: int = UNKNOWN
) -> None:
    follower = leadership.follower(node_id)
    assert follower is not None
    follower.fetched(offset=offset, start_offset=0, broker_epoch=epoch, leader_end=end, now_ms=now_ms)


def propose(
    leadership: Leadership,
    *,
    end: int,
    high_watermark: int = 0,
    now_ms: int = 0,
    epochs: dict[int, int] | None = None,
    resigns: bool = False,
) -> Proposal | None:
    known = {1: 10, 2: 20, 3: 30} if epochs is None else epochs
    return leadership.propose(
        high_watermark=high_watermark,
        leader_end=end,
        now_ms=now_ms,
        lag_max_ms=LAG_MS,
        broker_epochs=known.get,
        resigns=resigns,
    )


# The high watermark.


def test_with_the_leader_alone_in_the_isr_the_high_watermark_is_its_log_end_offset() -> None:
    leadership = leading(1)
    assert leadership.alone
    assert leadership.compute_high_watermark(7) == 7


def test_the_high_watermark_is_that_of_the_slowest_in_sync_follower() -> None:
    leadership = leading(1, 2, 3)
    assert leadership.compute_high_watermark(7) == UNKNOWN  # no follower has fetched yet
    fetched(leadership, 2, 5, end=7)
    assert leadership.compute_high_watermark(7) == UNKNOWN
    fetched(leadership, 3, 4, end=7)
    assert leadership.compute_high_watermark(7) == 4


def test_the_leaders_own_offset_counts_too() -> None:
    leadership = leading(1, 2)
    fetched(leadership, 2, 9, end=9)
    assert leadership.compute_high_watermark(6) == 6  # what its disk has


def test_who_is_not_in_sync_does_not_count() -> None:
    leadership = leading(1, 2)
    fetched(leadership, 2, 7, end=7)
    fetched(leadership, 3, 1, end=7)
    assert leadership.compute_high_watermark(7) == 7


def test_a_member_counts_from_when_it_is_proposed() -> None:
    leadership = leading(1, 2)
    fetched(leadership, 2, 7, end=7)
    fetched(leadership, 3, 6, end=7)
    assert propose(leadership, end=7, high_watermark=6) is not None
    assert leadership.members == {1, 2, 3}
    assert leadership.compute_high_watermark(9) == 6


def test_a_member_counts_until_its_removal_is_confirmed() -> None:
    leadership = leading(1, 2)
    proposal = propose(leadership, end=7, now_ms=LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (1,)
    assert leadership.compute_high_watermark(7) == UNKNOWN
    leadership.changed(State((1,), partition_epoch=1), now_ms=LAG_MS + 1)
    assert leadership.alone
    assert leadership.compute_high_watermark(7) == 7


# Who leaves.


def test_a_follower_that_never_fetches_is_proposed_to_leave_when_its_time_is_over() -> None:
    leadership = leading(1, 2, 3, now_ms=1000)
    fetched(leadership, 3, 7, end=7, now_ms=1000)
    assert propose(leadership, end=7, now_ms=1000 + LAG_MS) is None
    proposal = propose(leadership, end=7, now_ms=1001 + LAG_MS)
    assert proposal == Proposal((1, 3), (10, UNKNOWN), 5, 0)


def test_a_follower_that_has_everything_stays_however_long_it_is_silent() -> None:
    leadership = leading(1, 2)
    fetched(leadership, 2, 7, end=7)
    assert propose(leadership, end=7, now_ms=10 * LAG_MS) is None
    assert propose(leadership, end=8, now_ms=10 * LAG_MS) is not None


def test_under_constant_load_a_follower_is_in_time_if_it_has_what_there_was_at_its_last_fetch() -> None:
    leadership = leading(1, 2)
    for step in range(20):
        fetched(leadership, 2, 10 * step, end=10 * (step + 1), now_ms=step * LAG_MS // 2)
        assert propose(leadership, end=10 * (step + 1), now_ms=step * LAG_MS // 2) is None
    # Now it gets less than the leader takes in.
    for step in range(20, 24):
        fetched(leadership, 2, 200, end=10 * (step + 1), now_ms=step * LAG_MS // 2)
    assert propose(leadership, end=250, now_ms=24 * LAG_MS // 2) is not None


# Who joins.


@pytest.mark.parametrize(
    ("offset", "high_watermark", "start_offset", "joins"),
    [(5, 5, 5, True), (4, 5, 0, False), (4, 0, 5, False), (7, 5, 5, True)],
)
def test_who_has_all_that_is_committed_and_all_of_earlier_leaders_joins(
    offset: int, high_watermark: int, start_offset: int, joins: bool
) -> None:
    leadership = leading(1, start_offset=start_offset)
    fetched(leadership, 2, offset, end=9, epoch=20)
    assert leadership.may_join(2, high_watermark=high_watermark) is joins
    proposal = propose(leadership, end=9, high_watermark=high_watermark)
    assert (proposal == Proposal((1, 2), (10, 20), 5, 0)) is joins


@pytest.mark.parametrize(
    ("epochs", "joins"), [({1: 10, 2: 20}, True), ({1: 10}, False), ({1: 10, 2: 21}, False)]
)
def test_only_the_present_life_of_a_broker_that_is_not_fenced_joins(
    epochs: dict[int, int], joins: bool
) -> None:
    leadership = leading(1)
    fetched(leadership, 2, 9, end=9, epoch=20)
    assert (propose(leadership, end=9, epochs=epochs) is not None) is joins


def test_a_leader_that_cannot_write_proposes_the_others_and_drops_none_of_them() -> None:
    leadership = leading(1, 2, 3)
    fetched(leadership, 2, 7, end=9)
    proposal = propose(leadership, end=9, now_ms=10 * LAG_MS, resigns=True)
    assert proposal is not None
    assert proposal.isr == (2, 3)
    assert leadership.members == {1, 2, 3}


def test_the_last_member_gives_up_when_another_one_has_joined() -> None:
    leadership = leading(1)
    fetched(leadership, 2, 8, end=9)
    assert propose(leadership, end=9, high_watermark=9, resigns=True) is None
    fetched(leadership, 2, 9, end=9)
    joined = propose(leadership, end=9, high_watermark=9, resigns=True)
    assert joined is not None
    assert joined.isr == (1, 2)
    leadership.changed(State((1, 2), partition_epoch=1), now_ms=0)
    proposal = propose(leadership, end=9, high_watermark=9, resigns=True)
    assert proposal is not None
    assert proposal.isr == (2,)


def test_a_replica_that_never_fetched_does_not_join_the_isr() -> None:
    assert propose(leading(1), end=0) is None


# One proposal at a time, and its end.


def test_nothing_is_proposed_while_something_is_pending() -> None:
    leadership = leading(1)
    fetched(leadership, 2, 9, end=9)
    first = propose(leadership, end=9)
    fetched(leadership, 3, 9, end=9)
    assert not leadership.may_join(3, high_watermark=0)
    assert propose(leadership, end=9) is None
    assert leadership.proposal_to_send is first
    leadership.changed(State((1, 2), partition_epoch=1), now_ms=0)
    second = propose(leadership, end=9)
    assert second is not None
    assert (second.isr, second.partition_epoch) == ((1, 2, 3), 1)


@pytest.mark.parametrize(
    ("code", "members", "is_sent_again"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, {1}, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, {1}, False),
        (ErrorCode.INVALID_UPDATE_VERSION, {1, 2}, False),
        (ErrorCode.FENCED_LEADER_EPOCH, {1, 2}, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, {1, 2}, False),
        (ErrorCode.NOT_CONTROLLER, {1, 2}, True),
        (ErrorCode.STALE_BROKER_EPOCH, {1, 2}, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, {1, 2}, True),
    ],
)
def test_what_an_answer_means(code: ErrorCode, members: set[int], is_sent_again: bool) -> None:
    leadership = leading(1)
    fetched(leadership, 2, 9, end=9)
    proposal = propose(leadership, end=9)
    assert proposal is not None
    leadership.answered(proposal, Verdict(code).outcome)
    assert leadership.members == members
    assert (leadership.proposal_to_send is proposal) is is_sent_again
    if leadership.pending is not None:  # nothing else is proposed before the metadata tells
        assert propose(leadership, end=9) is None
    leadership.changed(State((1,), partition_epoch=1), now_ms=0)
    assert leadership.members == {1}
    assert leadership.pending is None


def test_an_answer_to_what_the_metadata_has_settled_is_nothing() -> None:
    leadership = leading(1)
    fetched(leadership, 2, 9, end=9)
    first = propose(leadership, end=9)
    assert first is not None
    leadership.changed(State((1,), partition_epoch=1), now_ms=0)
    second = propose(leadership, end=9)
    leadership.answered(first, ProposalOutcome.REJECTED)
    assert leadership.pending is second is not None


def test_a_replica_that_is_new_is_known_and_one_that_is_gone_is_not() -> None:
    leadership = leading(1, 2)
    fetched(leadership, 2, 4, end=9)
    leadership.changed(State((1, 2), replicas=(1, 2, 4), partition_epoch=1), now_ms=0)
    assert leadership.follower(3) is None
    assert leadership.follower(4) is not None
    assert leadership.compute_high_watermark(9) == 4


class InSyncSets(RuleBasedStateMachine):
    """A leader, a controller whose answers are late or lost, and followers that come and go.

    Whatever happens, what the leader calls committed is in the log of every member of the set that the controller has:
    that is the set of which the next leader is chosen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.end = 0
        self.committed = 0
        self.logs = {2: 0, 3: 0}
        self.written = State((1, 2, 3))  # by the controller
        self.leadership = Leadership(self.written, node_id=NODE, start_offset=0, now_ms=0)
        self.under_way: list[Proposal] = []  # the controller has not looked at them
        self.answers: list[tuple[Proposal, ProposalOutcome, State]] = []
        self.metadata: list[State] = []  # not yet heard of

    def advance(self) -> None:
        self.committed = max(self.committed, self.leadership.compute_high_watermark(self.end))

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.end += count
        self.advance()

    @rule(node_id=st.sampled_from([2, 3]), count=st.integers(0, 4))
    def fetch(self, node_id: int, count: int) -> None:
        self.logs[node_id] = min(self.logs[node_id] + count, self.end)
        fetched(self.leadership, node_id, self.logs[node_id], end=self.end, now_ms=self.now_ms)
        self.advance()

    @rule(ms=st.integers(1, 2 * LAG_MS))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def propose(self) -> None:
        propose(self.leadership, end=self.end, high_watermark=self.committed, now_ms=self.now_ms)

    @precondition(lambda self: self.leadership.proposal_to_send is not None)
    @rule()
    def send(self) -> None:
        assert self.leadership.proposal_to_send is not None
        self.under_way.append(self.leadership.proposal_to_send)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), is_lost=st.booleans())
    def controller_looks(self, data: st.DataObject, is_lost: bool) -> None:
        number = data.draw(st.integers(0, len(self.under_way) - 1))
        proposal = self.under_way.pop(number)
        if proposal.partition_epoch == self.written.partition_epoch:
            self.written = State(proposal.isr, partition_epoch=proposal.partition_epoch + 1)
            self.metadata.append(self.written)
            outcome = ProposalOutcome.ACCEPTED
        else:
            outcome = ProposalOutcome.SUPERSEDED
        self.answers.append((proposal, ProposalOutcome.UNKNOWN if is_lost else outcome, self.written))

    @precondition(lambda self: self.answers)
    @rule()
    def answer(self) -> None:
        proposal, outcome, state = self.answers.pop(0)
        if self.leadership.pending is not proposal:
            return
        if outcome is ProposalOutcome.ACCEPTED:
            self.leadership.changed(state, now_ms=self.now_ms)
        else:
            self.leadership.answered(proposal, outcome)
        self.advance()

    @rule()
    def controller_removes(self) -> None:
        """A broker is fenced: the controller takes it out by itself."""
        if 3 in self.written.isr:
            self.written = State(
                tuple(id_ for id_ in self.written.isr if id_ != 3),
                partition_epoch=self.written.partition_epoch + 1,
            )
            self.metadata.append(self.written)

    @precondition(lambda self: self.metadata)
    @rule()
    def hear(self) -> None:
        state = self.metadata.pop(0)
        if state.partition_epoch > self.leadership.agreed.partition_epoch:
            self.leadership.changed(state, now_ms=self.now_ms)
            self.advance()

    @invariant()
    def what_is_committed_is_everywhere_where_the_next_leader_is_chosen(self) -> None:
        for member in self.written.isr:
            if member != NODE:
                assert self.logs[member] >= self.committed


TestInSyncSets = InSyncSets.TestCase


# Where majorities count.


def by_majority(state: State, *, start_offset: int = 0) -> Leadership:
    return Leadership(state, node_id=NODE, start_offset=start_offset, now_ms=0, counts_majority=True)


def test_the_high_watermark_is_what_a_majority_has_whatever_the_isr() -> None:
    leadership = by_majority(State((1,)))
    assert leadership.compute_high_watermark(7) == UNKNOWN
    fetched(leadership, 3, 5, end=7)
    assert leadership.compute_high_watermark(7) == 5
    fetched(leadership, 2, 6, end=7)
    assert leadership.compute_high_watermark(7) == 6
    assert leadership.compute_high_watermark(4) == 5, "the leader itself need not be one of them"


def test_nothing_is_safe_before_something_of_the_leaders_own_is() -> None:
    leadership = by_majority(State((1,)), start_offset=5)
    fetched(leadership, 2, 5, end=7)
    assert leadership.compute_high_watermark(7) == UNKNOWN
    fetched(leadership, 2, 6, end=7)
    assert leadership.compute_high_watermark(7) == 6


def test_who_is_in_sync_has_the_leaders_first_record() -> None:
    leadership = by_majority(State((1,)), start_offset=5)
    fetched(leadership, 2, 5, end=6)
    assert not leadership.may_join(2, high_watermark=3)
    fetched(leadership, 2, 6, end=6)
    assert leadership.may_join(2, high_watermark=3)


def test_of_two_both_are_the_majority_and_one_alone_is_its_own() -> None:
    leadership = by_majority(State((1, 2), replicas=(1, 2)))
    assert leadership.compute_high_watermark(7) == UNKNOWN
    assert by_majority(State((1,), replicas=(1,))).compute_high_watermark(7) == 7


def test_who_is_being_added_does_not_count() -> None:
    leadership = by_majority(State((1, 2, 3), replicas=(1, 2, 3, 4), adding=(4,)))
    fetched(leadership, 4, 7, end=7)
    assert leadership.compute_high_watermark(7) == UNKNOWN


def test_while_a_step_is_under_way_the_majority_after_it_counts_too() -> None:
    leadership = by_majority(State((1, 2, 3), replicas=(1, 2, 3, 4), adding=(4,)))
    fetched(leadership, 2, 5, end=9)
    fetched(leadership, 4, 5, end=9)
    assert leadership.may_join(4, high_watermark=5)
    proposal = propose(leadership, end=9, high_watermark=5, epochs={1: 10, 2: 20, 3: 30, 4: 40})
    assert proposal is not None
    assert 4 in proposal.isr
    fetched(leadership, 2, 9, end=9)
    assert leadership.compute_high_watermark(9) == 5, "of four, three have to have it"
    leadership.changed(State((1, 2, 3, 4), replicas=(1, 2, 3, 4), partition_epoch=1), now_ms=0)
    fetched(leadership, 4, 8, end=9)
    assert leadership.compute_high_watermark(9) == 8


def test_no_replica_is_removed_before_a_majority_of_the_remaining_ones_reaches_the_high_watermark() -> None:
    state = State((1, 2, 3), replicas=(1, 2, 3), removing=(3,))
    leadership = by_majority(state)
    fetched(leadership, 3, 7, end=7)
    fetched(leadership, 2, 6, end=7)
    assert leadership.compute_high_watermark(7) == 7
    assert propose(leadership, end=7, high_watermark=7) is None
    fetched(leadership, 2, 7, end=7)
    assert leadership.may_join(2, high_watermark=7), "this fetch makes the leader propose the step"
    assert propose(leadership, end=7, high_watermark=7) is not None


# Cutting a log that has diverged.


@pytest.mark.parametrize(
    ("diverging", "own", "offset"),
    [
        (EpochEnd(3, 10), EpochEnd(3, 14), 10),  # the follower wrote more in that epoch
        (EpochEnd(3, 14), EpochEnd(3, 10), 10),  # it wrote less, and went on under an epoch of its own
        (
            EpochEnd(3, 10),
            EpochEnd(2, 7),
            7,
        ),  # it never heard of that epoch; the next fetch goes on from there
        (EpochEnd(3, 10), EpochEnd(UNKNOWN, UNKNOWN), 10),
        (EpochEnd(3, 99), EpochEnd(3, 99), 20),
    ],
)
def test_where_a_follower_cuts_its_log(diverging: EpochEnd, own: EpochEnd, offset: int) -> None:
    assert truncation_offset(diverging=diverging, own=own, end_offset=20) == offset


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_a_cut_never_makes_a_log_longer(leaders_end: int, own_end: int, end_offset: int) -> None:
    cut = truncation_offset(
        diverging=EpochEnd(3, leaders_end), own=EpochEnd(3, own_end), end_offset=end_offset
    )
    assert cut <= min(leaders_end, end_offset)


def test_a_follower_that_goes_back_is_taken_at_its_word() -> None:
    follower = Follower(0)
    follower.fetched(offset=9, start_offset=0, broker_epoch=1, leader_end=9, now_ms=1)
    follower.fetched(offset=3, start_offset=0, broker_epoch=2, leader_end=9, now_ms=2)
    assert (follower.end_offset, follower.broker_epoch) == (3, 2)
    assert not follower.lags(leader_end=9, now_ms=1 + LAG_MS, lag_max_ms=LAG_MS)
    assert follower.lags(leader_end=9, now_ms=2 + LAG_MS, lag_max_ms=LAG_MS)


def test_a_follower_that_has_everything_and_asks_again_has_its_time_from_then_on() -> None:
    follower = Follower(0)
    follower.fetched_again(5)  # it has never fetched
    assert follower.lags(leader_end=9, now_ms=1 + LAG_MS, lag_max_ms=LAG_MS)
    follower.fetched(offset=9, start_offset=0, broker_epoch=1, leader_end=9, now_ms=1)
    follower.fetched_again(1000)
    assert not follower.lags(leader_end=10, now_ms=1000 + LAG_MS, lag_max_ms=LAG_MS)
    assert follower.lags(leader_end=10, now_ms=1001 + LAG_MS, lag_max_ms=LAG_MS)
    # One that does not have everything does not get any further by asking.
    follower.fetched(offset=9, start_offset=0, broker_epoch=1, leader_end=20, now_ms=1002)
    follower.fetched_again(5000)
    assert follower.lags(leader_end=20, now_ms=5000 + LAG_MS, lag_max_ms=LAG_MS)
