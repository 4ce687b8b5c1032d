"""Topics whose majorities count: the rules one by one, then stories of brokers that come, go, forget and lag."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import pytest

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicId, TopicIdPartition, TopicPartition
from penstock.cluster.metadata import (
    NO_LEADER,
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    Topic,
    decode_partition,
    encode_partition,
)
from penstock.controller.rules import majority_partitions
from penstock.controller.rules.admin_requests import RequestedReplicas, decide_elections, decide_reassignments
from penstock.controller.rules.isr import judge_proposals
from penstock.controller.rules.majority_partitions import (
    Report,
    accept_isr,
    begin_reassignment,
    cancel_reassignment,
    choose_leader,
    elect_for_shutdown,
    elect_leader,
    elect_preferred,
    elect_unclean,
    fence_replica,
    remove_leader,
    unfence_replica,
)
from penstock.core import replication
from penstock.core.isr_proposals import Proposal, ProposalOutcome
from penstock.core.replication import Leadership, majority_of

ID = TopicId(b"t" * 16)


def state(
    leader: int,
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    isr: tuple[int, ...] | None = None,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    doubtful: tuple[int, ...] = (),
) -> PartitionState:
    members = replicas if isr is None else isr
    return PartitionState(leader, 5, replicas, members, 7, adding, removing, (), doubtful)


def image(partition: PartitionState) -> MetadataImage:
    made = MetadataImage("cluster")
    made.apply_topic(Topic("t", ID, (partition,), {"penstock.ack.quorum": "majority"}))
    for node_id in (1, 2, 3, 4):
        made.apply_broker(BrokerRegistration(node_id, None, {}, epoch=10 + node_id))
    return made


# ---- losing a leader


def test_a_partition_whose_leader_is_gone_has_none_under_the_next_epoch():
    after = fence_replica(state(1), 1)
    assert (after.leader, after.leader_epoch, after.isr) == (NO_LEADER, 6, (2, 3))


def test_a_follower_that_is_gone_costs_no_leader():
    after = fence_replica(state(1), 3)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1, 2))


def test_a_partition_without_a_leader_stays_as_it_is():
    before = state(NO_LEADER, isr=(2,))
    assert remove_leader(before) is before
    assert fence_replica(before, 1) is before


def test_who_may_have_lost_something_is_doubtful_even_as_the_last_in_sync():
    after = unfence_replica(state(1, isr=(1,)), 1, keeps_all=False)
    assert (after.leader, after.isr, after.doubtful) == (NO_LEADER, (), (1,))


def test_who_comes_back_with_everything_is_not():
    after = unfence_replica(state(1), 1, keeps_all=True)
    assert (after.leader, after.leader_epoch, after.doubtful) == (NO_LEADER, 6, ())
    assert unfence_replica(state(1), 2, keeps_all=True) == state(1)
    assert unfence_replica(state(1), 4, keeps_all=False) == state(1)


def test_a_broker_that_stops_hands_over_if_enough_others_are_there():
    assert elect_for_shutdown(state(1), 1, {1, 2, 3}).leader == NO_LEADER
    assert elect_for_shutdown(state(1), 1, {1, 2}).leader == 1
    assert elect_for_shutdown(state(1), 2, {1, 2, 3}).leader == 1


# ---- appointing


def test_no_leader_is_elected_on_less_than_a_majority_of_reports():
    assert choose_leader(state(NO_LEADER), {2: Report(5, 10)}, alive={2, 3}) == NO_LEADER


def test_the_greatest_report_of_a_majority_wins_by_epoch_and_then_by_end():
    assert choose_leader(state(NO_LEADER), {2: Report(5, 10), 3: Report(5, 11)}, alive={2, 3}) == 3
    assert choose_leader(state(NO_LEADER), {2: Report(4, 99), 3: Report(5, 11)}, alive={2, 3}) == 3


def test_of_equals_the_first_replica_is_appointed():
    told = {3: Report(5, 10), 1: Report(5, 10), 2: Report(5, 10)}
    assert choose_leader(state(NO_LEADER), told, alive={1, 2, 3}) == 1
    assert choose_leader(state(NO_LEADER), told, alive={1, 2, 3}, avoided=[1]) == 2


def test_a_leader_that_resigned_is_elected_only_if_no_other_replica_can_be():
    after = accept_isr(state(1), (2, 3))
    assert (after.leader, after.leader_epoch, after.isr) == (NO_LEADER, 6, (2, 3))
    told = {1: Report(5, 12), 2: Report(5, 10), 3: Report(5, 9)}
    assert choose_leader(after, told, alive={1, 2, 3}) == 2
    assert choose_leader(after, {1: Report(5, 12), 3: Report(5, 9)}, alive={1, 3}) == 1


def test_a_replica_that_has_as_much_as_a_majority_may_lead_though_another_has_more():
    told = {1: Report(5, 12), 2: Report(5, 10), 3: Report(5, 9)}
    assert choose_leader(state(NO_LEADER, (2, 1, 3)), told, alive={1, 2, 3}) == 2
    assert choose_leader(state(NO_LEADER, (3, 2, 1)), told, alive={1, 2, 3}) == 2


def test_a_doubtful_report_does_not_count():
    doubted = state(NO_LEADER, doubtful=(2,))
    told = {2: Report(5, 12), 3: Report(5, 10)}
    assert choose_leader(doubted, told, alive={2, 3}) == NO_LEADER
    assert choose_leader(doubted, {**told, 1: Report(5, 11)}, alive={1, 2, 3}) == 1


def test_where_too_many_are_doubtful_all_have_to_report():
    doubted = state(NO_LEADER, doubtful=(1, 2, 3))
    told = {2: Report(5, 12), 3: Report(5, 10)}
    assert choose_leader(doubted, told, alive={2, 3}) == NO_LEADER
    assert choose_leader(doubted, {**told, 1: Report(5, 11)}, alive={1, 2, 3}) == 2


def test_unclean_all_that_are_alive_suffice():
    told = {2: Report(5, 12)}
    assert choose_leader(state(NO_LEADER), told, alive={2, 3}, unclean=True) == NO_LEADER
    assert choose_leader(state(NO_LEADER), told, alive={2}, unclean=True) == 2
    assert choose_leader(state(NO_LEADER), {}, alive=set(), unclean=True) == NO_LEADER


def test_a_report_without_an_epoch_counts_only_if_its_log_is_empty_from_offset_0():
    assert choose_leader(state(NO_LEADER), {2: Report(-1, 12), 3: Report(5, 10)}, alive={2, 3}) == NO_LEADER
    assert choose_leader(state(NO_LEADER), {2: Report(-1, 0), 3: Report(5, 10)}, alive={2, 3}) == 3


def test_who_is_being_added_neither_counts_nor_leads():
    moving = state(NO_LEADER, (1, 2, 3, 4), adding=(4,))
    assert choose_leader(moving, {3: Report(5, 10), 4: Report(5, 10)}, alive={3, 4}) == NO_LEADER
    assert choose_leader(moving, {3: Report(5, 10), 2: Report(5, 10)}, alive={2, 3, 4}) == 2


def test_who_is_appointed_is_alone_in_sync_under_the_next_epoch_and_not_doubtful():
    after = elect_leader(state(NO_LEADER, doubtful=(2, 3)), 2)
    assert (after.leader, after.leader_epoch, after.isr, after.doubtful) == (2, 6, (2,), (3,))


# ---- asked for by an operator


def test_the_preferred_leader_is_appointed_by_way_of_no_leader():
    moves = decide_elections(image(state(2)), [TopicPartition("t", 0)], unclean=False)
    assert moves.change.topics["t"].partitions[0].leader == NO_LEADER
    assert elect_preferred(state(1), {1, 2, 3}) == state(1)
    assert elect_preferred(state(2), {2, 3}) == state(2)
    assert elect_preferred(state(2, isr=(2, 3)), {1, 2, 3}).leader == 2


def test_an_unclean_election_takes_any_live_replica_and_the_isr_first():
    moves = decide_elections(image(state(NO_LEADER, isr=(3,))), [TopicPartition("t", 0)], unclean=True)
    after = moves.change.topics["t"].partitions[0]
    assert (after.leader, after.isr) == (3, (3,))
    assert elect_unclean(state(NO_LEADER), set()).leader == NO_LEADER
    assert elect_unclean(state(2), {1, 2}).leader == 2


# ---- other replicas, one at a time


def agreed(before: PartitionState, *isr: int) -> PartitionState:
    proposal = Proposal(isr, (-1,) * len(isr), before.leader_epoch, before.partition_epoch)
    where = TopicIdPartition(ID, 0)
    change, verdicts, _ = judge_proposals(
        image(before), before.leader, {where: proposal}, min_isr=lambda _: 1
    )
    assert verdicts[where].error is ErrorCode.NONE
    after = change.topics["t"].partitions[0] if change.topics else before
    assert verdicts[where].isr == after.isr
    return after


def test_a_replica_is_exchanged_in_two_steps():
    moves = decide_reassignments(
        image(state(1)), [RequestedReplicas(TopicPartition("t", 0), (1, 2, 4))], keeps_factor=True
    )
    begun = moves.change.topics["t"].partitions[0]
    assert (begun.replicas, begun.adding, begun.removing) == ((1, 2, 4, 3), (4,), (3,))
    counted = agreed(begun, 1, 2, 3, 4)
    assert (counted.replicas, counted.adding, counted.removing) == ((1, 2, 4, 3), (), (3,))
    over = agreed(counted, 1, 2, 3, 4)
    assert (over.replicas, over.isr, over.removing, over.leader) == ((1, 2, 4), (1, 2, 4), (), 1)


def test_replicas_are_added_one_at_a_time_and_none_is_removed_before_all_are_added():
    begun = begin_reassignment(state(1, (1, 2)), (3, 4))
    assert agreed(begun, 1, 2).adding == (3, 4)
    first = agreed(begun, 1, 2, 3, 4)
    assert (first.adding, first.removing) == ((4,), (1, 2))
    second = agreed(first, 1, 2, 3, 4)
    assert (second.adding, second.removing) == ((), (1, 2))
    third = agreed(second, 1, 2, 3, 4)
    assert (third.replicas, third.removing, third.leader) == ((3, 4, 1), (1,), 1)
    last = agreed(third, 1, 3, 4)
    assert (last.replicas, last.removing, last.leader, last.leader_epoch) == ((3, 4), (), NO_LEADER, 7)


def test_another_exchange_drops_who_was_only_being_added():
    begun = begin_reassignment(state(1), (1, 2, 4))
    again = begin_reassignment(begun, (1, 2, 5))
    assert (again.replicas, again.adding, again.removing) == ((1, 2, 5, 3), (5,), (3,))


def test_an_exchange_given_up_keeps_who_counts():
    begun = begin_reassignment(state(1), (1, 4, 5))
    moves = decide_reassignments(
        image(agreed(begun, 1, 2, 3, 4)), [RequestedReplicas(TopicPartition("t", 0), None)], keeps_factor=True
    )
    after = moves.change.topics["t"].partitions[0]
    assert (set(after.replicas), after.adding, after.removing) == ({1, 2, 3, 4}, (), ())
    assert cancel_reassignment(begun).replicas == (1, 2, 3)


def test_who_is_in_sync_again_is_not_doubtful_any_more():
    after = accept_isr(state(1, isr=(1,), doubtful=(2, 3)), (1, 3))
    assert (after.isr, after.doubtful) == ((1, 3), (2,))
    assert accept_isr(after, (3, 1)) is after


def test_a_state_reads_back_as_it_was_written():
    for each in (
        state(1),
        state(1, removing=(2,)),
        state(1, doubtful=(2,)),
        state(1, adding=(3,), removing=(2,)),
    ):
        assert decode_partition(encode_partition(each)) == each
    assert len(encode_partition(state(1))) == 5


# ---- any story


class Entry(NamedTuple):
    epoch: int
    value: int


@dataclass
class Node:
    """A broker with a replica: its log, and what it knows."""

    log: list[Entry] = field(default_factory=list)
    known: int = 0  # of the states that were written, which one
    life: int = 1
    runs: bool = True
    admitted: bool = True
    has_lost: bool = False
    leadership: Leadership | None = None
    high_watermark: int = 0


class Told(NamedTuple):
    report: Report
    life: int
    epoch: int


NODES = (1, 2, 3, 4, 5)


class Story:
    """One partition. What was once safe is in the log of every leader that follows, as long as no majority of the
    voters has lost something at once."""

    def __init__(self, replicas: tuple[int, ...] = (1, 2, 3)) -> None:
        self.written = [PartitionState(1, 0, replicas, replicas, 0)]  # by the controller, all of them
        self.nodes = {node_id: Node() for node_id in NODES}
        self.fenced: set[int] = set()
        self.told: dict[int, Told] = {}
        self.safe: list[Entry] = []
        self.safe_before = {0: 0}  # each leader epoch: a leader may hear late that it was one
        self.values = 0
        self.is_excused = False
        self.take_role(1)

    @property
    def state(self) -> PartitionState:
        return self.written[-1]

    def write(self, after: PartitionState) -> None:
        if after is not self.state:
            assert after.partition_epoch > self.state.partition_epoch
            self.written.append(after)
            self.safe_before.setdefault(after.leader_epoch, len(self.safe))
        voters = self.state.present_replicas
        lost = [each for each in voters if self.nodes[each].has_lost or each in self.state.doubtful]
        self.is_excused |= len(lost) >= majority_of(len(voters))

    def view(self, node_id: int) -> PartitionState:
        return self.written[self.nodes[node_id].known]

    # What brokers do.

    def hear(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if not node.runs or not node.admitted or node.known + 1 >= len(self.written):
            return
        before = self.view(node_id)
        node.known += 1
        after = self.view(node_id)
        if node_id not in after.replicas:
            node.log, node.leadership, node.high_watermark = [], None, 0
        elif node.leadership is None or after.leader != node_id or after.leader_epoch != before.leader_epoch:
            self.take_role(node_id)
        else:
            node.leadership.changed(after, now_ms=0)
            self.advance(node)

    def hear_all(self, node_id: int) -> None:
        while self.nodes[node_id].known + 1 < len(self.written):
            self.hear(node_id)

    def take_role(self, node_id: int) -> None:
        node, known = self.nodes[node_id], self.view(node_id)
        node.leadership = None
        if known.leader != node_id:
            return
        if not self.is_excused:
            safe = self.safe[: self.safe_before[known.leader_epoch]]
            assert node.log[: len(safe)] == safe, "the new leader lacks what was safe"
        node.leadership = Leadership(
            known, node_id=node_id, start_offset=len(node.log), now_ms=0, counts_majority=True
        )
        if node.log:
            node.log.append(Entry(known.leader_epoch, -1))
        self.advance(node)

    def advance(self, node: Node) -> None:
        assert node.leadership is not None
        reached = node.leadership.compute_high_watermark(len(node.log))
        node.high_watermark = max(node.high_watermark, reached)
        safe = node.log[: node.high_watermark]
        common = min(len(safe), len(self.safe))
        if not self.is_excused:
            assert safe[:common] == self.safe[:common], "two leaders took different things for safe"
        if len(safe) > len(self.safe):
            self.safe = safe

    def produce(self, node_id: int, count: int) -> None:
        node = self.nodes[node_id]
        if node.runs and node.leadership is not None:
            for _ in range(count):
                self.values += 1
                node.log.append(Entry(self.view(node_id).leader_epoch, self.values))
            self.advance(node)

    def fetch(self, node_id: int, count: int) -> None:
        node, known = self.nodes[node_id], self.view(node_id)
        if (
            not node.runs
            or not node.admitted
            or known.leader in (NO_LEADER, node_id)
            or node_id not in known.replicas
        ):
            return
        leader = self.nodes[known.leader]
        if not leader.runs or leader.leadership is None:
            return
        if self.view(known.leader).leader_epoch != known.leader_epoch:
            return
        follower = leader.leadership.follower(node_id)
        if follower is None:
            return
        same = 0
        while same < min(len(node.log), len(leader.log)) and node.log[same] == leader.log[same]:
            same += 1
        if same < len(node.log):
            del node.log[same:]
            return
        follower.fetched(
            offset=same, start_offset=0, broker_epoch=node.life, leader_end=len(leader.log), now_ms=0
        )
        self.advance(leader)
        node.log += leader.log[same : same + count]
        node.high_watermark = max(node.high_watermark, min(leader.high_watermark, len(node.log)))

    def propose(self, node_id: int, is_answered: bool) -> None:
        node, known = self.nodes[node_id], self.view(node_id)
        if not node.runs or node.leadership is None:
            return
        leadership = node.leadership
        lives = {each: self.nodes[each].life for each in NODES if each not in self.fenced}
        leadership.propose(
            high_watermark=node.high_watermark,
            leader_end=len(node.log),
            now_ms=1,
            lag_max_ms=1 << 62,
            broker_epochs=lives.get,
        )
        proposal = leadership.proposal_to_send
        if proposal is None or known.partition_epoch != self.state.partition_epoch:
            return
        joining = [
            (each, life)
            for each, life in zip(proposal.isr, proposal.broker_epochs, strict=True)
            if each not in known.isr
        ]
        if any(lives.get(each) != life or not self.nodes[each].admitted for each, life in joining):
            leadership.answered(proposal, ProposalOutcome.REJECTED)
            return
        before = self.state
        self.write(accept_isr(before, tuple(each for each in before.replicas if each in proposal.isr)))
        if is_answered:
            verdict = ProposalOutcome.REJECTED if self.state is before else ProposalOutcome.SUPERSEDED
            leadership.answered(proposal, verdict)

    def report(self, node_id: int) -> None:
        node, known = self.nodes[node_id], self.view(node_id)
        if not node.runs or not node.admitted or node_id in self.fenced or node_id not in known.replicas:
            return
        if known.leader == NO_LEADER and known.leader_epoch == self.state.leader_epoch:
            last = node.log[-1].epoch if node.log else -1
            self.told[node_id] = Told(Report(last, len(node.log)), node.life, known.leader_epoch)

    # What befalls them.

    def crash(self, node_id: int, kept: int, loses: bool) -> None:
        node = self.nodes[node_id]
        if not node.runs:
            return
        node.runs = node.admitted = False
        node.leadership = None
        node.high_watermark = 0
        if loses:
            node.has_lost = True
            del node.log[kept:]
            self.write(self.state)

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if not node.runs:
            node.runs = True
            node.life += 1

    # What the controller does.

    def admit(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if not node.runs or node.admitted:
            return
        self.write(unfence_replica(self.state, node_id, keeps_all=not node.has_lost))
        self.fenced.discard(node_id)
        node.admitted, node.has_lost = True, False
        node.known = len(self.written) - 1
        if node_id not in self.state.replicas:
            node.log = []
        self.write(self.state)

    def lose_sight(self, node_id: int) -> None:
        """A broker that lives, too: it registers again, with all that it has."""
        self.fenced.add(node_id)
        self.write(fence_replica(self.state, node_id))

    def see_again(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.runs and node.admitted and node_id in self.fenced:
            node.life += 1
            self.fenced.discard(node_id)
            self.write(unfence_replica(self.state, node_id, keeps_all=True))

    def move_leader(self) -> None:
        self.write(remove_leader(self.state))

    def elect_leader(self) -> None:
        if self.state.leader != NO_LEADER:
            return
        current = {
            node_id: told.report
            for node_id, told in self.told.items()
            if told.epoch == self.state.leader_epoch
            and told.life == self.nodes[node_id].life
            and node_id not in self.fenced
        }
        alive = [each for each in NODES if each not in self.fenced]
        leader = choose_leader(self.state, current, alive=alive)
        if leader != NO_LEADER:
            self.write(elect_leader(self.state, leader))

    def begin_reassignment(self, wanted: list[int]) -> None:
        self.write(begin_reassignment(self.state, tuple(wanted)))

    def cancel(self) -> None:
        if self.state.adding or self.state.removing:
            self.write(cancel_reassignment(self.state))

    def check(self) -> None:
        known = self.state
        assert set(known.isr) | set(known.doubtful) | set(known.adding) | set(known.removing) <= set(
            known.replicas
        )
        assert not set(known.isr) & set(known.doubtful)
        assert known.leader == NO_LEADER or (known.leader in known.isr and known.leader not in known.adding)


# ---- what breaks a rule


def one_report_suffices(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(majority_partitions, "majority_of", lambda _: 1)


def half_of_the_voters_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replication, "majority_of", lambda count: max(1, count // 2))


def older_leaders_are_followed_on(patch: pytest.MonkeyPatch) -> None:
    def report(self: Story, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.runs and node.admitted and node_id not in self.fenced and self.state.leader == NO_LEADER:
            last = node.log[-1].epoch if node.log else -1
            self.told[node_id] = Told(Report(last, len(node.log)), node.life, self.state.leader_epoch)

    patch.setattr(Story, "report", report)


def doubtful_reports_count(patch: pytest.MonkeyPatch) -> None:
    genuine = unfence_replica
    patch.setitem(
        globals(), "unfence_replica", lambda before, come, keeps_all: genuine(before, come, keeps_all=True)
    )


def the_end_counts_and_not_the_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Report, "__le__", lambda self, other: self.end_offset <= other.end_offset)


def a_leader_counts_what_others_wrote(patch: pytest.MonkeyPatch) -> None:
    def high_watermark(self: Leadership, own_offset: int) -> int:
        return self._majorities_have(own_offset, self._voters_then)

    patch.setattr(Leadership, "compute_high_watermark", high_watermark)


def who_is_added_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    genuine = begin_reassignment
    patch.setitem(
        globals(), "begin_reassignment", lambda before, wanted: genuine(before, wanted)._replace(adding=())
    )


def only_the_present_voters_count(patch: pytest.MonkeyPatch) -> None:
    def majorities_have(self: Leadership, own_offset: int, voters_then: object) -> int:
        return self._majority_has(self._voters, own_offset)

    patch.setattr(Leadership, "_majorities_have", majorities_have)


def a_step_needs_no_word_of_the_leader(patch: pytest.MonkeyPatch) -> None:
    propose = Leadership.propose

    def proposed(self: Leadership, **named: object) -> object:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Leadership, "_majorities_have", lambda *_: 1 << 62)
            return propose(self, **named)  # type: ignore[arg-type]

    patch.setattr(Leadership, "propose", proposed)


def who_was_dropped_counts_when_it_is_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(majority_partitions, "_in_next_epoch", lambda before: before)


# A seed in whose story each shows.
SEEN_FROM = {
    one_report_suffices: 1,
    half_of_the_voters_counts: 1,
    older_leaders_are_followed_on: 88,
    doubtful_reports_count: 321,
    the_end_counts_and_not_the_epoch: 672,
    who_is_added_counts_at_once: 11,
    only_the_present_voters_count: 6004,
    a_step_needs_no_word_of_the_leader: 155,
}
SEEDS = 1000


# ---- the stories


def tell(seed: int, *, steps: int = 500) -> Story:
    """A story that a seed stands for, up to its end, or to where too much is lost."""
    chance = Random(seed)
    story = Story()
    pace = chance.choice((2, 5, 15))  # of what is usual to what is not

    def node() -> int:
        return chance.choice(NODES)

    def leader() -> int:
        leading = [each for each in NODES if story.nodes[each].leadership is not None]
        return chance.choice(leading or NODES)

    def replica() -> int:
        return chance.choice(story.state.replicas)

    rules: list[tuple[int, Callable[[], None]]] = [
        (5 * pace, lambda: story.hear(node())),
        (2 * pace, lambda: story.produce(leader(), chance.randint(1, 3))),
        (6 * pace, lambda: story.fetch(replica(), chance.randint(0, 3))),
        (2 * pace, lambda: story.propose(leader(), chance.random() < 0.7)),
        (3 * pace, lambda: story.report(replica())),
        (pace, story.elect_leader),
        (chance.choice((0, 1)), lambda: story.crash(node(), chance.randint(0, 10), chance.random() < 0.5)),
        (2, lambda: story.start(node())),
        (3, lambda: story.admit(node())),
        (1, lambda: story.lose_sight(node())),
        (3, lambda: story.see_again(node())),
        (1, story.move_leader),
        (chance.choice((0, 1)), lambda: story.begin_reassignment(chance.sample(NODES, chance.randint(1, 5)))),
        (chance.choice((0, 0, 1)), story.cancel),
    ]
    weights = [weight for weight, _ in rules]
    for _, step in chance.choices(rules, weights, k=steps):
        step()
        story.check()
        if story.is_excused:
            break
    return story


def test_nothing_that_was_safe_is_missing_in_the_log_of_any_leader():
    stories = [tell(seed) for seed in range(SEEDS)]
    assert sum(len(story.safe) > 20 for story in stories) > SEEDS / 10, "something came to be safe"
    assert sum(story.state.leader_epoch > 5 for story in stories) > SEEDS / 10, "and others came to lead"


@pytest.mark.interpreted("rules of core.replication")
@pytest.mark.parametrize("fault", SEEN_FROM)
def test_a_rule_that_is_broken_shows(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
):
    tell(SEEN_FROM[fault])
    fault(monkeypatch)
    with pytest.raises(AssertionError, match="safe"):
        tell(SEEN_FROM[fault])


def test_what_an_older_leader_wrote_is_not_safe_by_lying_on_a_majority(monkeypatch: pytest.MonkeyPatch):
    """As in figure 8 of the paper on Raft."""
    tell_of_an_older_leader()
    a_leader_counts_what_others_wrote(monkeypatch)
    with pytest.raises(AssertionError, match="safe"):
        tell_of_an_older_leader()


def test_who_was_dropped_does_not_count_before_it_has_heard_of_that(monkeypatch: pytest.MonkeyPatch):
    tell_of_one_who_was_dropped()
    who_was_dropped_counts_when_it_is_back(monkeypatch)
    with pytest.raises(AssertionError, match="safe"):
        tell_of_one_who_was_dropped()


def lead(story: Story, reporting: tuple[int, ...]) -> int:
    """Who is appointed by those who report."""
    story.move_leader()
    for each in reporting:
        story.hear_all(each)
        story.report(each)
    story.elect_leader()
    for each in reporting:
        story.hear_all(each)
    return story.state.leader


def tell_of_an_older_leader() -> None:
    story = Story(NODES)
    story.produce(1, 1)
    story.fetch(2, 1)
    assert lead(story, (3, 4, 5)) == 3
    story.produce(3, 1)  # no follower fetches it
    assert lead(story, (1, 2, 4)) == 1
    story.fetch(2, 1)
    story.fetch(4, 1)
    story.fetch(4, 0)  # the leader knows now that three have it
    assert (
        lead(story, (3, 4, 5)) == 3
    )  # its last epoch is the greatest, and it lacks what the first one wrote


def tell_of_one_who_was_dropped() -> None:
    story = Story()
    for wanted in ([1, 2], [1, 2, 3]):
        story.begin_reassignment(wanted)
        story.hear_all(1)
        for each in (2, 3):
            story.fetch(each, 1)
        story.propose(1, True)
        story.hear_all(1)
        story.hear_all(2)
    story.produce(1, 1)
    for _ in range(2):
        story.fetch(3, 1)
        story.propose(1, True)
        story.hear_all(1)
    story.hear_all(3)  # it has been dropped, and is wanted again: it has deleted all it had
    assert lead(story, (2, 3)) == NO_LEADER, "it is still being added, and does not count"
