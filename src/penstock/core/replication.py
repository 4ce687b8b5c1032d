"""A leader's decisions about its followers: who is in sync, how far all of them are, whom to propose to the controller.

A `Leadership` is one leader epoch of one partition, seen by its leader. Followers say how far they are by where they
fetch. What the controller has agreed to is the *agreed* in-sync set. A change is proposed, at most one at a time, and
until its outcome is known nobody can tell which of both sets counts: so the high watermark is the minimum over the
agreed set together with the proposed one, that is over members that are being added, and those whose removal is not
confirmed yet. New metadata, which has a higher partition epoch, settles what is pending.

Where majorities count (`penstock.ack.quorum`), the in-sync set says who is well, and no more. The *voters* count: all
replicas but those that are being added. What a majority of them has is safe, provided that it is followed by something
of the leader's own epoch: what is older may lie on a majority, and yet be missing in the log of a replica that led
meanwhile, whose last epoch is the greater one. So a leader begins with a record of its own. Voters change one at a
time, and while it is not known whether they have, a majority before and one after must have what is to be safe. The
other half, the appointment of leaders, is in `controller.rules.majorities`.

Also here: where a follower cuts its log when it has diverged from its leader's. Time is an argument everywhere, in
milliseconds of a clock that does not jump.
"""

from collections.abc import Callable, Collection, Container
from typing import Final, NamedTuple, Protocol

from penstock.core.isr_proposals import Proposal, ProposalOutcome

UNKNOWN: Final = -1  # an offset, or a broker epoch, that nobody has told

_NEVER_MS: Final = -(1 << 62)


class AgreedState(Protocol):
    """What the controller has written about a partition, as far as it matters here."""

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
    """How many of so many are a majority."""
    return count // 2 + 1


class Step(NamedTuple):
    """A change of the voters: one more, or one less."""

    joins: int | None = None
    leaves: int | None = None


def next_step(agreed: AgreedState, isr: Container[int], *, leader: int) -> Step | None:
    """What is next in an exchange of replicas with so many in sync, if anything is to be done now.

    Nobody goes before all that are added count, and the leader goes last: another one has to be appointed then.
    """
    ready = [id_ for id_ in agreed.adding if id_ in isr]
    if ready:
        return Step(joins=ready[0])
    if agreed.adding or not agreed.removing:
        return None
    return Step(leaves=next((id_ for id_ in agreed.removing if id_ != leader), leader))


class Follower:
    """What a leader knows of one follower."""

    __slots__ = (
        "_fetched_ms",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "leader_end_then",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN  # everything below is in its log, and on its disk where that counts
        self.start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_ms = caught_up_ms  # when it last had all that the leader had
        self._fetched_ms = _NEVER_MS
        self.leader_end_then = UNKNOWN  # the leader's end when it fetched last

    def fetched(
        self, *, offset: int, start_offset: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end_then != UNKNOWN:
            # It has all that there was at its last fetch: under constant load nobody ever has everything.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset = offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self.leader_end_then = leader_end

    def asked_again(self, at_ms: int) -> None:
        """It fetched from the same offset, when the leader's end was that of its last fetch."""
        if self.end_offset >= self.leader_end_then != UNKNOWN:
            self.caught_up_ms = max(self.caught_up_ms, at_ms)
            self._fetched_ms = max(self._fetched_ms, at_ms)

    def lags(self, *, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.end_offset != leader_end and now_ms - self.caught_up_ms > lag_max_ms


# The epoch of a broker that is registered and not fenced; None of any other.
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
        """`start_offset` is where the leader's log ended when it became the leader."""
        self.agreed = agreed
        self._counts_majority = counts_majority
        self.start_offset = start_offset
        self.pending: Proposal | None = None
        self._waits_for_metadata = False
        self._node_id = node_id
        self._followers = {
            # Whoever is in sync has its time from now on; who is not has to earn it.
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
        """Everybody who counts: in sync, being added, or not yet confirmed to be out."""
        proposed = () if self.pending is None else self.pending.isr
        return frozenset(self.agreed.isr).union(proposed)

    def follower(self, node_id: int) -> Follower | None:
        return self._followers.get(node_id)

    def high_watermark(self, own_offset: int) -> int:
        """Up to where everybody who counts has everything; UNKNOWN before all have fetched. Where majorities count:
        up to where one has, if that is beyond where this leader began."""
        if self._counts_majority:
            reached = self._majorities_have(own_offset, self._voters_then)
            return reached if reached > self.start_offset or self.alone else UNKNOWN
        for follower in self._counted:
            if follower.end_offset < own_offset:
                own_offset = follower.end_offset
        return own_offset

    def _voters_after(self, isr: Container[int]) -> frozenset[int]:
        """Who would be voters with so many in sync: the next step of an exchange is taken then."""
        step = next_step(self.agreed, isr, leader=self._node_id)
        if step is None:
            return self._voters
        return self._voters.union([] if step.joins is None else [step.joins]).difference([step.leaves])

    def _majorities_have(self, own_offset: int, voters_then: frozenset[int]) -> int:
        """Up to where a majority of the voters has everything, and one of those that there may be instead."""
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
        """Below which no replica that is alive shows anything; UNKNOWN before all of them have fetched."""
        starts = (follower.start_offset for id_, follower in self._followers.items() if id_ in alive)
        return min([own_start, *starts])

    # Changes of the in-sync set.

    def may_join(self, node_id: int, *, high_watermark: int) -> bool:
        """Whether a follower that has just fetched is to be proposed, as far as its log tells."""
        if self.pending is not None or (node_id in self.agreed.isr and not self._has_a_step_to_do):
            return False
        follower = self._followers.get(node_id)
        if follower is None:
            return False
        needed = max(high_watermark, self.start_offset)
        if self._counts_majority:
            # With the leader's first record, if there is one: without it, nobody can be appointed in its place.
            needed = max(needed, min(self.start_offset + 1, follower.leader_end_then))
        return follower.end_offset >= needed

    @property
    def _has_a_step_to_do(self) -> bool:
        """Whether the controller is to be asked for the next step of an exchange of replicas: where majorities count,
        they change one at a time, and each step needs the leader's word that a majority has all that is safe."""
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
        gives_up: bool = False,
        own_offset: int | None = None,
    ) -> Proposal | None:
        """The in-sync set that should be, if it is another one and nothing is pending. It is pending then.

        `gives_up`: the leader cannot write. It asks to be out, so that another member leads. Where it is the only one,
        somebody has to join first. `own_offset` is up to where the leader itself counts, if that is not its end.
        """
        if self.pending is not None:
            return None
        others = tuple(id_ for id_ in self.agreed.isr if id_ != self._node_id)
        if gives_up and others:
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
        if not leaving and not joining and not self._has_a_step_to_do:
            return None
        members = (*(id_ for id_ in self.agreed.isr if id_ not in leaving), *joining)
        if self._counts_majority:
            # What was safe with the voters before has to be with those that there are, and those that there will be.
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
        """Whether the broker is alive, and it is its present life that fetched (KIP-903)."""
        current, fetched_with = broker_epochs(node_id), self._followers[node_id].broker_epoch
        return current is not None and fetched_with in (UNKNOWN, current)

    def _broker_epoch(self, node_id: int, broker_epochs: BrokerEpochs) -> int:
        if node_id == self._node_id:
            own = broker_epochs(node_id)
            return UNKNOWN if own is None else own
        return self._followers[node_id].broker_epoch

    @property
    def to_send(self) -> Proposal | None:
        """What the controller is to be asked, or asked again."""
        return None if self._waits_for_metadata else self.pending

    def answered(self, proposal: Proposal, outcome: ProposalOutcome) -> None:
        """The controller answered, or did not. What it agreed to comes with `changed`."""
        if self.pending is not proposal:
            return  # newer metadata has settled it
        if outcome is ProposalOutcome.REJECTED:
            self.settle()
        elif outcome is ProposalOutcome.SUPERSEDED:
            self._waits_for_metadata = True

    def settle(self) -> None:
        """It is known what became of the proposal: the agreed set counts, as it is or is told next."""
        self.pending = None
        self._waits_for_metadata = False
        self._count()

    def changed(self, agreed: AgreedState, *, now_ms: int) -> None:
        """The same leader epoch has another state: whatever was pending is settled."""
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


def cut_offset(*, diverging: EpochEnd, own: EpochEnd, end_offset: int) -> int:
    """Where a follower's log is to end so that it may be a beginning of its leader's.

    `diverging` is what the leader said: its largest epoch not above the follower's last one. `own` is what the
    follower's log knows of that epoch, likewise. Where both have the same one, they may differ from where the shorter
    one ends; where the follower has an older one only, the next fetch tells more.
    """
    if own.epoch == UNKNOWN:
        return min(diverging.end_offset, end_offset)
    if own.epoch != diverging.epoch:
        return min(own.end_offset, end_offset)
    return min(own.end_offset, diverging.end_offset, end_offset)
