"""A leader's decisions about its followers: who is in sync, how far all of them are, whom to propose to the controller.

A `Leadership` is one leader epoch of one partition, seen by its leader. Followers say how far they are by where they
fetch. What the controller has agreed to is the *agreed* in-sync set. A change is proposed, at most one at a time, and
until its outcome is known nobody can tell which of both sets counts: so the high watermark is the minimum over the
agreed set together with the proposed one, that is over members that are being added, and those whose removal is not
confirmed yet. New metadata, which has a higher partition epoch, settles what is pending.

Also here: where a follower cuts its log when it has diverged from its leader's. Time is an argument everywhere, in
milliseconds of a clock that does not jump.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from penstock.base.errors import ErrorCode

UNKNOWN: Final = -1  # an offset, or a broker epoch, that nobody has told

_NEVER_MS: Final = -(1 << 62)


class AgreedState(Protocol):
    """What the controller has written about a partition, as far as it matters here."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def replicas(self) -> tuple[int, ...]: ...

    @property
    def in_sync(self) -> tuple[int, ...]: ...

    @property
    def partition_epoch(self) -> int: ...


class Proposal(NamedTuple):
    """An in-sync set that the controller is asked for, and the state it would follow on."""

    in_sync: tuple[int, ...]
    broker_epochs: tuple[int, ...]  # of each member, as it fetched with; UNKNOWN where it has not fetched yet
    leader_epoch: int
    partition_epoch: int


class Verdict(Enum):
    """What an answer to a proposal means for it."""

    AGREED = "it is so, as the answer says"
    REFUSED = "it is not so and will not be: everything is as before"
    OVERTAKEN = "metadata that is on its way will tell what is so; until then both sets count"
    UNKNOWN = "nobody knows: the same is asked again"


_VERDICTS: Final[Mapping[ErrorCode, Verdict]] = {
    ErrorCode.NONE: Verdict.AGREED,
    # The controller says that the partition epoch is the current one, and that nothing was changed: with these two, no
    # controller before or after it can have done it either.
    ErrorCode.INELIGIBLE_REPLICA: Verdict.REFUSED,
    ErrorCode.OPERATION_NOT_ATTEMPTED: Verdict.REFUSED,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.OVERTAKEN,
    ErrorCode.INVALID_REQUEST: Verdict.OVERTAKEN,
    ErrorCode.INVALID_UPDATE_VERSION: Verdict.OVERTAKEN,
    ErrorCode.NEW_LEADER_ELECTED: Verdict.OVERTAKEN,
    ErrorCode.UNKNOWN_TOPIC_ID: Verdict.OVERTAKEN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.OVERTAKEN,
}


def verdict(code: int) -> Verdict:
    """What a partition's error code in the controller's answer means for what was proposed."""
    return _VERDICTS.get(ErrorCode(code), Verdict.UNKNOWN)


class Follower:
    """What a leader knows of one follower."""

    __slots__ = (
        "_fetched_ms",
        "_leader_end_then",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN  # everything below is in its log, and on its disk where that counts
        self.start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_ms = caught_up_ms  # when it last had all that the leader had
        self._fetched_ms = _NEVER_MS
        self._leader_end_then = UNKNOWN  # the leader's end when it fetched last

    def fetched(
        self, *, offset: int, start_offset: int, broker_epoch: int, leader_end: int, now_ms: int
    ) -> None:
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self._leader_end_then != UNKNOWN:
            # It has all that there was at its last fetch: under constant load nobody ever has everything.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset = offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self._leader_end_then = leader_end

    def lags(self, *, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.end_offset != leader_end and now_ms - self.caught_up_ms > lag_max_ms


# The epoch of a broker that is registered and not fenced; None of any other.
BrokerEpochs = Callable[[int], int | None]


class Leadership:
    """One leader epoch of one partition, as its leader sees it."""

    __slots__ = (
        "_counted",
        "_followers",
        "_node_id",
        "_waits_for_metadata",
        "agreed",
        "alone",
        "pending",
        "start_offset",
    )

    def __init__(self, agreed: AgreedState, *, node_id: int, start_offset: int, now_ms: int) -> None:
        """`start_offset` is where the leader's log ended when it became the leader."""
        self.agreed = agreed
        self.start_offset = start_offset
        self.pending: Proposal | None = None
        self._waits_for_metadata = False
        self._node_id = node_id
        self._followers = {
            # Whoever is in sync has its time from now on; who is not has to earn it.
            follower: Follower(now_ms if follower in agreed.in_sync else _NEVER_MS)
            for follower in agreed.replicas
            if follower != node_id
        }
        self._count()

    def _count(self) -> None:
        members = self.members
        self._counted = [self._followers[id_] for id_ in self._followers if id_ in members]
        self.alone = not self._counted  # nobody but the leader counts

    @property
    def members(self) -> frozenset[int]:
        """Everybody who counts: in sync, being added, or not yet confirmed to be out."""
        proposed = () if self.pending is None else self.pending.in_sync
        return frozenset(self.agreed.in_sync).union(proposed)

    def follower(self, node_id: int) -> Follower | None:
        return self._followers.get(node_id)

    def high_watermark(self, own_offset: int) -> int:
        """Up to where everybody who counts has everything; UNKNOWN before all have fetched."""
        for follower in self._counted:
            if follower.end_offset < own_offset:
                own_offset = follower.end_offset
        return own_offset

    # Changes of the in-sync set.

    def may_join(self, node_id: int, *, high_watermark: int) -> bool:
        """Whether a follower that has just fetched is to be proposed, as far as its log tells."""
        if self.pending is not None or node_id in self.agreed.in_sync:
            return False
        follower = self._followers.get(node_id)
        return follower is not None and follower.end_offset >= max(high_watermark, self.start_offset)

    def propose(
        self,
        *,
        high_watermark: int,
        leader_end: int,
        now_ms: int,
        lag_max_ms: int,
        broker_epochs: BrokerEpochs,
    ) -> Proposal | None:
        """The in-sync set that should be, if it is another one and nothing is pending. It is pending then."""
        if self.pending is not None:
            return None
        leaving = {
            id_
            for id_ in self.agreed.in_sync
            if id_ in self._followers
            and self._followers[id_].lags(leader_end=leader_end, now_ms=now_ms, lag_max_ms=lag_max_ms)
        }
        joining = [
            id_
            for id_ in self._followers
            if self.may_join(id_, high_watermark=high_watermark) and self._is_eligible(id_, broker_epochs)
        ]
        if not leaving and not joining:
            return None
        members = (*(id_ for id_ in self.agreed.in_sync if id_ not in leaving), *joining)
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

    def answered(self, proposal: Proposal, outcome: Verdict) -> None:
        """The controller answered, or did not. What it agreed to comes with `changed`."""
        if self.pending is not proposal:
            return  # newer metadata has settled it
        if outcome is Verdict.REFUSED:
            self.settle()
        elif outcome is Verdict.OVERTAKEN:
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
            id_: known.get(id_) or Follower(now_ms if id_ in agreed.in_sync else _NEVER_MS)
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
