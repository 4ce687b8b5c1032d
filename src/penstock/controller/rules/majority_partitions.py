"""Leaders and replicas of topics with `penstock.ack.quorum=majority`. Pure: a state in, a state out.

A record is committed when a majority of the *voters* has it; voters are all replicas but those that a reassignment is
adding. `core.replication` says when a leader counts a majority. Committed records survive because of these rules:

- A partition first loses its leader, in a new leader epoch with "no leader", and only then gets another. A replica that
  has read that epoch follows no older leader, and reports the last leader epoch in its log and its log end offset. Any
  majority of reports includes a replica that has all committed records, so the replica with the greatest report of a
  majority has them too. The former leader, even if it still runs, gets no majority: those replicas do not follow it.
- A replica that may have lost records it acknowledged (its broker's shutdown was not clean) is *doubtful*: its report
  does not count until it has caught up with a leader and is in the ISR again. A majority of all voters has to report
  without it: such a majority overlaps every other one. If too many voters are doubtful for that, all voters have to
  report: there is no further information.
- Voters change one at a time, and only when the leader confirms that a majority of the present voters, and a majority
  of those after the change, have all committed records. Until the leader knows the outcome, it counts both majorities.
  A replica becomes a voter only after it has caught up.

The ISR of such a topic decides nothing about commits: it shows which replicas are caught up.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.cluster.metadata import NO_LEADER, PartitionState
from penstock.core.replication import UNKNOWN, majority_of, next_step


class Report(NamedTuple):
    """The end of a replica's log. If one replica has all committed records, one with a greater report has them too."""

    last_epoch: int
    end_offset: int

    @property
    def is_comparable(self) -> bool:
        """Whether it can be compared with others: a log that was just restarted at a later offset has no epoch yet."""
        return self.last_epoch != UNKNOWN or self.end_offset == 0


def remove_leader(state: PartitionState) -> PartitionState:
    """The partition without a leader, in a new leader epoch in which no record is written."""
    if state.leader == NO_LEADER:
        return state
    return state.changed(leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)


def elect_preferred(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Remove the leader if the preferred one could be elected instead: an election follows."""
    preferred = state.replicas[0]
    able = preferred in alive and preferred in state.isr and preferred not in state.adding
    return remove_leader(state) if able and state.leader not in (preferred, NO_LEADER) else state


def elect_unclean(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Elect any replica that is alive where there is no leader: records that only the others have are lost."""
    able = [each for each in state.present_replicas if each in alive]
    if state.leader != NO_LEADER or not able:
        return state
    return elect_leader(state, min(able, key=lambda each: each not in state.isr))


def elect_for_shutdown(state: PartitionState, leaving: int, alive: Collection[int]) -> PartitionState:
    """Remove a leader that is shutting down, if enough other voters are alive for an election."""
    voters = state.present_replicas
    others = sum(each in alive and each != leaving for each in voters)
    return remove_leader(state) if state.leader == leaving and others >= majority_of(len(voters)) else state


def fence_replica(state: PartitionState, gone: int) -> PartitionState:
    """Shrink the ISR by a fenced broker, and remove it as leader."""
    if gone in state.isr:
        state = state.changed(isr=_without(state.isr, gone))
    return remove_leader(state) if state.leader == gone else state


def unfence_replica(state: PartitionState, come: int, *, keeps_all: bool) -> PartitionState:
    """Remove a leader whose broker has registered again. `keeps_all`: it has everything it ever acknowledged; else it
    leaves the ISR and is doubtful.
    """
    if come not in state.replicas:
        return state
    if not keeps_all and (come in state.isr or come not in state.doubtful):
        state = state.changed(
            isr=_without(state.isr, come),
            doubtful=(*_without(state.doubtful, come), come),
        )
    return remove_leader(state) if state.leader == come else state


def choose_leader(
    state: PartitionState,
    reports: Mapping[int, Report],
    *,
    alive: Collection[int],
    avoided: Collection[int] = (),
    unclean: bool = False,
) -> int:
    """The replica to elect, of those that have reported; NO_LEADER if there are too few reports yet.

    `avoided` brokers are elected only if no other can be. With `unclean`, the reports of all live replicas suffice.
    """
    voters = state.present_replicas
    needed = majority_of(len(voters))
    told = {each: reports[each] for each in voters if each in reports}
    certain = {each: told[each] for each in told if each not in state.doubtful and told[each].is_comparable}
    able: list[int] = []
    if len(certain) >= needed:
        able = [
            each for each in certain if sum(other <= certain[each] for other in certain.values()) >= needed
        ]
    elif told and (
        len(told) == len(voters) or (unclean and all(each in told for each in voters if each in alive))
    ):
        greatest = max(told.values())
        able = [each for each in told if told[each] == greatest]
    # A leader that resigned because it cannot write is not in the ISR any more.
    return min(
        able,
        key=lambda each: (each in avoided, each not in state.isr, voters.index(each)),
        default=NO_LEADER,
    )


def elect_leader(state: PartitionState, leader: int) -> PartitionState:
    """The partition with that leader, in a new leader epoch; the leader proposes the rest of the ISR."""
    return state.changed(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=(leader,),
        doubtful=_without(state.doubtful, leader),
    )


def accept_isr(state: PartitionState, isr: tuple[int, ...]) -> PartitionState:
    """Accept the ISR that a leader proposes, and take the next step of a reassignment if it can be taken; the same
    state if neither changes anything. A leader that proposes an ISR without itself cannot write: it is removed.
    """
    if state.leader not in isr:
        return remove_leader(state._replace(isr=isr))
    after = state
    if set(isr) != set(state.isr):
        doubtful = tuple(each for each in state.doubtful if each not in isr)
        after = after._replace(isr=isr, doubtful=doubtful)
    after = _step(after)
    return state if after is state else after._replace(partition_epoch=state.partition_epoch + 1)


def _step(state: PartitionState) -> PartitionState:
    """Take the next step of a reassignment, if there is one: add or remove one voter."""
    step = next_step(state, state.isr, leader=state.leader)
    if step is None:
        return state
    if step.joins is not None:
        return state._replace(adding=_without(state.adding, step.joins))
    leaving = step.leaves
    assert leaving is not None
    after = state._replace(
        replicas=_without(state.replicas, leaving),
        removing=_without(state.removing, leaving),
        isr=_without(state.isr, leaving),
        doubtful=_without(state.doubtful, leaving),
    )
    return remove_leader(after) if leaving == state.leader else _in_next_epoch(after)


def _in_next_epoch(state: PartitionState) -> PartitionState:
    """The same leader in a new leader epoch, for a partition that has lost a replica: `leader_election` says why."""
    return state if state.leader == NO_LEADER else state._replace(leader_epoch=state.leader_epoch + 1)


def begin_reassignment(state: PartitionState, wanted: tuple[int, ...]) -> PartitionState:
    """Add the replicas that are wanted, or put them into another order. Replicas that were being added and are not
    wanted are removed at once; others that are not wanted are removed one by one, once all wanted ones are voters.
    """
    voters = state.present_replicas
    leaving = tuple(each for each in voters if each not in wanted)
    return _of_replicas(
        state,
        replicas=wanted + leaving,
        adding=tuple(each for each in wanted if each not in voters),
        removing=leaving,
    )


def cancel_reassignment(state: PartitionState) -> PartitionState:
    """Stop a reassignment: remove the replicas that are being added; those that have become voters stay."""
    return _of_replicas(state, replicas=state.present_replicas, adding=(), removing=())


def _of_replicas(
    state: PartitionState,
    *,
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> PartitionState:
    if not set(state.replicas) <= set(replicas):
        state = _in_next_epoch(state)
    return state.changed(
        replicas=replicas,
        adding=adding,
        removing=removing,
        isr=tuple(each for each in state.isr if each in replicas),
        doubtful=tuple(each for each in state.doubtful if each in replicas),
    )


def _without(members: tuple[int, ...], one: int) -> tuple[int, ...]:
    return tuple(each for each in members if each != one)
