"""Elects partition leaders, and shrinks ISR and ELR, when a broker is fenced, unfenced or shut down. Pure.

No acknowledged write is lost, because only a replica that has everything below the high watermark leads. Members of the
ISR have it. While the ISR is smaller than `min.insync.replicas`, the high watermark does not move; so a replica that
leaves the ISR then has everything too, stays in the ELR until the ISR is large enough again, and leads if no member of
the ISR can. A replica that may have lost records leaves both before it can lead; but the last one stays in any
case, since no other replica has everything.

A new leader epoch begins with every leader, and whenever a partition loses a replica (`rules.reassignment`). A broker
deletes a replica when it reads the metadata that take it away, and by then it may have been given the replica again.
Until it has read them, it fetches in the old epoch, and must not count as having what it is about to delete.
"""

from collections.abc import Collection

from penstock.cluster.metadata import NO_LEADER, PartitionState


def elect(state: PartitionState, alive: Collection[int], *, unclean: bool = False) -> PartitionState:
    """Elect the first replica that is alive and in the ISR, or else in the ELR; with `unclean`, or else any.

    Returns the same state if the leader can stay, or if there is none and none can be elected.
    """
    if state.leader != NO_LEADER and state.leader in alive and state.leader in state.isr:
        return state
    leader = _first(state.replicas, state.isr, alive)
    if leader != NO_LEADER:
        return with_leader(state, leader, state.isr)
    leader = _first(state.replicas, state.elr, alive)
    if leader != NO_LEADER:
        others = tuple(each for each in state.complete_replicas if each != leader)
        return with_leader(state, leader, (leader,))._replace(elr=others)
    if unclean:
        return _elect_unclean(state, alive)
    return state if state.leader == NO_LEADER else with_leader(state, NO_LEADER, state.isr)


def _elect_unclean(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Elect any replica that is alive: committed records that only the others have are lost."""
    leader = _first(state.replicas, state.replicas, alive)
    if leader != NO_LEADER:
        return with_leader(state, leader, (leader,))._replace(elr=())
    return state if state.leader == NO_LEADER else with_leader(state, NO_LEADER, state.isr)


def elect_preferred(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Elect the preferred leader, the first replica, if it is alive and in the ISR."""
    preferred = state.replicas[0]
    if preferred == state.leader or preferred not in alive or preferred not in state.isr:
        return state
    return with_leader(state, preferred, state.isr)


def elect_for_shutdown(state: PartitionState, leaving: int, alive: Collection[int]) -> PartitionState:
    """Elect another member of the ISR in place of a leader that is shutting down; the same state if there is none."""
    others = [broker for broker in alive if broker != leaving]
    leader = _first(state.replicas, state.isr, others)
    if state.leader != leaving or leader == NO_LEADER:
        return state
    return with_leader(state, leader, state.isr)


def fence_replica(
    state: PartitionState, gone: int, alive: Collection[int], *, min_isr: int = 1, unclean: bool = False
) -> PartitionState:
    """Shrink the ISR by a fenced broker, and elect another leader if it led. `alive` does not hold it.

    `min_isr` is the topic's `min.insync.replicas`.
    """
    isr = tuple(each for each in state.isr if each != gone)
    if gone in state.isr and isr:
        elr = state.elr_after(isr, min_isr=min_isr)
        state = state.changed(isr=isr, elr=elr)
    return elect(state, alive, unclean=unclean) if state.leader == gone else state


def unfence_replica(
    state: PartitionState,
    come: int,
    alive: Collection[int],
    *,
    keeps_all: bool,
    same_directory: bool,
    unclean: bool = False,
) -> PartitionState:
    """Unfence a replica whose broker has registered; `alive` holds it. Elect a leader if there is none.

    `keeps_all`: it has everything it ever acknowledged. `same_directory`: it has the data directory it had before. A
    broker without its data leaves the ISR and ELR even as the last member: then no replica is complete, and the
    partition has no leader until an unclean election.
    """
    if come not in state.replicas:
        return state
    known = state.complete_replicas
    if come in known and ((not keeps_all and len(known) > 1) or not same_directory):
        state = state.changed(
            isr=tuple(each for each in state.isr if each != come),
            elr=tuple(each for each in state.elr if each != come),
        )
    if state.leader == come:
        # Even if it is elected again: a new leader epoch tells what it writes now from what it wrote before.
        state = with_leader(state, NO_LEADER, state.isr)
    return elect(state, alive, unclean=unclean)


def clear_needless_elr(state: PartitionState, *, min_isr: int) -> PartitionState:
    """Clear the ELR if the ISR has as many members as `min_isr`, which has been lowered, asks for."""
    if not state.elr or len(state.isr) < state.needed_isr(min_isr):
        return state
    return state.changed(elr=())


def with_leader(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    """The partition with a leader, perhaps the same, in the next leader epoch."""
    return state.changed(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)


def _first(replicas: tuple[int, ...], able: Collection[int], alive: Collection[int]) -> int:
    return next((each for each in replicas if each in able and each in alive), NO_LEADER)
