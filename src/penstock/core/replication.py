"""A leader's decisions about its followers: the ISR to propose to the controller, and the high watermark.

A `Leadership` is one leader epoch of one partition, as the leader sees it. A follower's fetch offset says which records
it has. The *agreed* state is the one that the controller has written. The leader proposes an ISR change, at most one at
a time. Until the outcome is known, either ISR may count. So the high watermark is the minimum over the members of both:
over replicas whose joining and over replicas whose removal is not confirmed yet. New metadata, with a higher partition
epoch, settles a pending proposal.

With majority acknowledgement (`penstock.ack.quorum=majority`) the ISR is for information only. The *voters* count: all
replicas but those that a reassignment is adding. Records are committed when a majority of the voters has them and a
record of the leader's own epoch behind them. Without that, records of an older epoch may be on a majority and yet be
missing in the log of a replica that led meanwhile and has a higher last epoch. So a leader's first record is a control
record. Voters change one at a time. While the outcome of a change is unknown, records are committed when a majority of
the voters before the change and a majority of those after it have them. Leader election by majority is in
`controller.rules.majority_partitions`.

Also here: the offset to which a follower truncates its log if it diverges from its leader's. Times are arguments, in
milliseconds of a monotonic clock.
"""

from collections.abc import Callable, Collection, Container
from typing import Final, NamedTuple, Protocol

from penstock.core.isr_proposals import Proposal, ProposalOutcome

UNKNOWN: Final = -1  # an offset or a broker epoch that is not known yet

_NEVER_MS: Final = -(1 << 62)


class AgreedState(Protocol):
    """The fields of a partition's metadata that a leader needs."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def replicas(self) -> tuple[int, ...]: ...

    @property
    def isr(self) -> tuple[int, ...]: ...

    @property
    def partition_epoch(self) -> int: ...

    @property
    def adding(self) -> tuple[int, ...]: ...

    @property
    def removing(self) -> tuple[int, ...]: ...


def majority_of(count: int) -> int:
    """The size of a majority of `count` voters."""
    return count // 2 + 1


class VoterChange(NamedTuple):
    """One step of a reassignment: one voter joins, or one leaves."""

    joins: int | None = None
    leaves: int | None = None


def next_step(agreed: AgreedState, isr: Container[int], *, leader: int) -> VoterChange | None:
    """The next step of a reassignment of a majority topic, given the ISR; None if none can be taken now.

    No voter leaves before all added replicas are voters. The leader leaves last: another leader is elected then.
    """
    ready = [id_ for id_ in agreed.adding if id_ in isr]
    if ready:
        return VoterChange(joins=ready[0])
    if agreed.adding or not agreed.removing:
        return None
    return VoterChange(leaves=next((id_ for id_ in agreed.removing if id_ != leader), leader))


class Follower:
    """What a leader knows of one follower, from its fetches."""

    __slots__ = (
        "_fetched_ms",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "leader_end_then",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN  # its log has all records below; with flush.messages=1 they are flushed
        self.start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_ms = caught_up_ms  # when it last was at the leader's log end offset
        self._fetched_ms = _NEVER_MS
        self.leader_end_then = UNKNOWN  # the leader's log end offset at its last fetch

    def fetched(
        self, *, offset: int, start_offset: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end_then != UNKNOWN:
            # It has reached the log end offset of its last fetch. Under constant load no follower reaches the current.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset = offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self.leader_end_then = leader_end

    def fetched_again(self, at_ms: int) -> None:
        """Note a fetch at the same offset, while the leader's log end offset was that of the last fetch."""
        if self.end_offset >= self.leader_end_then != UNKNOWN:
            self.caught_up_ms = max(self.caught_up_ms, at_ms)
            self._fetched_ms = max(self._fetched_ms, at_ms)

    def lags(self, *, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.end_offset != leader_end and now_ms - self.caught_up_ms > lag_max_ms


# The broker epoch of a broker that is registered and not fenced; None for any other.
BrokerEpochs = Callable[[int], int | None]


class Leadership:
    """One leader epoch of one partition, as its leader sees it."""

    __slots__ = (
        "_counted",
        "_counts_majority",
        "_followers",
        "_node_id",
        "_voters",
        "_voters_then",
        "_waits_for_metadata",
        "agreed",
        "alone",
        "is_leaving",
        "pending",
        "start_offset",
    )

    def __init__(
        self,
        agreed: AgreedState,
        *,
        node_id: int,
        start_offset: int,
        now_ms: int,
        counts_majority: bool = False,
    ) -> None:
        """`start_offset` is the log end offset at which this leader epoch begins."""
        self.agreed = agreed
        self._counts_majority = counts_majority
        self.start_offset = start_offset
        self.pending: Proposal | None = None
        self._waits_for_metadata = False
        self._node_id = node_id
        self._followers = {
            # A member of the ISR has replica.lag.time.max.ms from now on; any other has to catch up first.
            follower: Follower(now_ms if follower in agreed.isr else _NEVER_MS)
            for follower in agreed.replicas
            if follower != node_id
        }
        self._count()

    def _count(self) -> None:
        pending = self.pending
        self._voters = frozenset(self.agreed.replicas)
        if self._counts_majority:
            self._voters = self._voters.difference(self.agreed.adding)
            self._voters_then = self._voters if pending is None else self._voters_after(pending.isr)
        members = self._voters if self._counts_majority else self.members
        self._counted = [self._followers[id_] for id_ in self._followers if id_ in members]
        self.alone = not self._counted  # only the leader counts
        # The leader has proposed an ISR without itself, and the outcome is not known yet.
        self.is_leaving = (
            pending is not None and self._node_id not in pending.isr and self._node_id in self.agreed.isr
        )

    @property
    def members(self) -> frozenset[int]:
        """The agreed ISR and the proposed one: the replicas that the high watermark waits for."""
        proposed = () if self.pending is None else self.pending.isr
        return frozenset(self.agreed.isr).union(proposed)

    def follower(self, node_id: int) -> Follower | None:
        return self._followers.get(node_id)

    def compute_high_watermark(self, own_offset: int) -> int:
        """The minimum log end offset of all members; UNKNOWN before all have fetched.

        With majority acknowledgement: the offset that a majority has reached, if that is beyond `start_offset`.
        """
        if self._counts_majority:
            reached = self._majorities_have(own_offset, self._voters_then)
            return reached if reached > self.start_offset or self.alone else UNKNOWN
        for follower in self._counted:
            if follower.end_offset < own_offset:
                own_offset = follower.end_offset
        return own_offset

    def _voters_after(self, isr: Container[int]) -> frozenset[int]:
        """The voters after the controller has accepted this ISR, and with it the next step of a reassignment."""
        step = next_step(self.agreed, isr, leader=self._node_id)
        if step is None:
            return self._voters
        return self._voters.union([] if step.joins is None else [step.joins]).difference([step.leaves])

    def _majorities_have(self, own_offset: int, voters_then: frozenset[int]) -> int:
        """The offset that a majority of the voters, and one of the voters after a change, has reached."""
        reached = self._majority_has(self._voters, own_offset)
        if voters_then is self._voters:
            return reached
        return min(reached, self._majority_has(voters_then, own_offset))

    def _majority_has(self, voters: Collection[int], own_offset: int) -> int:
        ends = sorted(
            own_offset if id_ == self._node_id else self._followers[id_].end_offset for id_ in voters
        )
        return ends[-majority_of(len(ends))]

    def low_watermark(self, own_start: int, alive: Collection[int]) -> int:
        """The lowest log start offset of the replicas that are alive; UNKNOWN before all of them have fetched."""
        starts = (follower.start_offset for id_, follower in self._followers.items() if id_ in alive)
        return min([own_start, *starts])

    # Changes of the ISR.

    def may_join(self, node_id: int, *, high_watermark: int) -> bool:
        """Whether the log of a follower that has just fetched allows it to join the ISR, or to take the next step."""
        if self.pending is not None or (node_id in self.agreed.isr and not self._has_next_step):
            return False
        follower = self._followers.get(node_id)
        if follower is None:
            return False
        needed = max(high_watermark, self.start_offset)
        if self._counts_majority:
            # With the leader's control record, if there is one: without it, no other voter could be elected.
            needed = max(needed, min(self.start_offset + 1, follower.leader_end_then))
        return follower.end_offset >= needed

    @property
    def _has_next_step(self) -> bool:
        """Whether to ask the controller for the next step of a reassignment of a majority topic.

        Its voters change one at a time, and each step needs the leader's proposal: only the leader knows that a
        majority has all committed records.
        """
        if not self._counts_majority:
            return False
        return next_step(self.agreed, self.agreed.isr, leader=self._node_id) is not None

    def propose(
        self,
        *,
        high_watermark: int,
        leader_end: int,
        now_ms: int,
        lag_max_ms: int,
        broker_epochs: BrokerEpochs,
        resigns: bool = False,
        own_offset: int | None = None,
    ) -> Proposal | None:
        """The ISR to propose, if it differs from the agreed one and no proposal is pending; it is pending then.

        `resigns`: the leader cannot write, and proposes an ISR without itself, so that another member is elected. If it
        is the only member, a follower has to join first. `own_offset` is the leader's flushed offset, if that counts
        instead of `leader_end`.
        """
        if self.pending is not None:
            return None
        others = tuple(id_ for id_ in self.agreed.isr if id_ != self._node_id)
        if resigns and others:
            return self._put(others, broker_epochs)
        leaving = {
            id_
            for id_ in others
            if id_ in self._followers
            and self._followers[id_].lags(leader_end=leader_end, now_ms=now_ms, lag_max_ms=lag_max_ms)
        }
        joining = [
            id_
            for id_ in self._followers
            if id_ not in self.agreed.isr
            and self.may_join(id_, high_watermark=high_watermark)
            and self._is_eligible(id_, broker_epochs)
        ]
        if not leaving and not joining and not self._has_next_step:
            return None
        members = (*(id_ for id_ in self.agreed.isr if id_ not in leaving), *joining)
        if self._counts_majority:
            # A majority of the voters before the change and one of those after it must have all committed records.
            own_offset = leader_end if own_offset is None else own_offset
            reached = self._majorities_have(own_offset, self._voters_after(members))
            if reached < max(high_watermark, self.start_offset):
                return None
        return self._put(members, broker_epochs)

    def _put(self, members: tuple[int, ...], broker_epochs: BrokerEpochs) -> Proposal:
        epochs = tuple(self._broker_epoch(id_, broker_epochs) for id_ in members)
        self.pending = Proposal(members, epochs, self.agreed.leader_epoch, self.agreed.partition_epoch)
        self._waits_for_metadata = False
        self._count()
        return self.pending

    def _is_eligible(self, node_id: int, broker_epochs: BrokerEpochs) -> bool:
        """Whether the broker is registered and unfenced, with the broker epoch with which it fetched (KIP-903)."""
        current, fetched_with = broker_epochs(node_id), self._followers[node_id].broker_epoch
        return current is not None and fetched_with in (UNKNOWN, current)

    def _broker_epoch(self, node_id: int, broker_epochs: BrokerEpochs) -> int:
        if node_id == self._node_id:
            own = broker_epochs(node_id)
            return UNKNOWN if own is None else own
        return self._followers[node_id].broker_epoch

    @property
    def proposal_to_send(self) -> Proposal | None:
        """The proposal to send to the controller, or to send again."""
        return None if self._waits_for_metadata else self.pending

    def answered(self, proposal: Proposal, outcome: ProposalOutcome) -> None:
        """Note the outcome of a proposal; an accepted one comes with `changed`."""
        if self.pending is not proposal:
            return  # newer metadata has settled it
        if outcome is ProposalOutcome.REJECTED:
            self.settle()
        elif outcome is ProposalOutcome.SUPERSEDED:
            self._waits_for_metadata = True

    def settle(self) -> None:
        """The outcome of the proposal is known: only the agreed ISR counts."""
        self.pending = None
        self._waits_for_metadata = False
        self._count()

    def changed(self, agreed: AgreedState, *, now_ms: int) -> None:
        """Apply a new state of the same leader epoch; it settles a pending proposal."""
        assert agreed.leader_epoch == self.agreed.leader_epoch
        assert agreed.partition_epoch >= self.agreed.partition_epoch
        known = self._followers
        self._followers = {
            id_: known.get(id_) or Follower(now_ms if id_ in agreed.isr else _NEVER_MS)
            for id_ in agreed.replicas
            if id_ != self._node_id
        }
        self.agreed = agreed
        self.settle()


class EpochEnd(NamedTuple):
    """A leader epoch and the offset at which it ended; both UNKNOWN if a log knows no such epoch."""

    epoch: int
    end_offset: int


def truncation_offset(*, diverging: EpochEnd, own: EpochEnd, end_offset: int) -> int:
    """The offset to which a follower truncates a log that diverges from its leader's.

    `diverging` is the leader's largest epoch not above the follower's last one, `own` is the follower's largest epoch
    not above `diverging`. If both are the same epoch, the logs may differ from the lower of its end offsets on. If the
    follower's is older, the next fetch compares again.
    """
    if own.epoch == UNKNOWN:
        return min(diverging.end_offset, end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, end_offset)
    return min(own.end_offset, diverging.end_offset, end_offset)
