"""Who may lead a partition and who counts as in sync, as brokers come and go. Pure: a state in, a state out.

What keeps an acknowledged write: only a member of the in-sync set leads, and who may have lost something leaves the set
before it can lead. The last member stays in the set whatever happens to it, for nobody else has everything.
"""

from collections.abc import Collection

from penstock.cluster.metadata import NO_LEADER, PartitionState


def elect(state: PartitionState, alive: Collection[int], *, unclean: bool = False) -> PartitionState:
    """A leader for a partition: the first of its replicas that is in sync and alive.

    With `unclean`, where there is none, any that is alive: what only others had is lost then. The same state if the
    present leader is fine, or nobody can lead and nobody does.
    """
    leader = _first(state.replicas, state.in_sync, alive)
    in_sync = state.in_sync
    if leader == NO_LEADER and unclean:
        leader = _first(state.replicas, state.replicas, alive)
        if leader != NO_LEADER:
            in_sync = (leader,)
    if state.leader != NO_LEADER and state.leader in alive and state.leader in state.in_sync:
        return state
    return state if leader == state.leader == NO_LEADER else _led(state, leader, in_sync)


def elect_preferred(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """The first replica as leader, if it can."""
    preferred = state.replicas[0]
    if preferred == state.leader or preferred not in alive or preferred not in state.in_sync:
        return state
    return _led(state, preferred, state.in_sync)


def hand_over(state: PartitionState, leaving: int, alive: Collection[int]) -> PartitionState:
    """Another leader for a partition whose leader is about to stop, if there is one; else the same state."""
    others = [broker for broker in alive if broker != leaving]
    leader = _first(state.replicas, state.in_sync, others)
    if state.leader != leaving or leader == NO_LEADER:
        return state
    return _led(state, leader, state.in_sync)


def fence(
    state: PartitionState, gone: int, alive: Collection[int], *, unclean: bool = False
) -> PartitionState:
    """A partition one of whose replicas is gone. `alive` does not hold it."""
    in_sync = tuple(each for each in state.in_sync if each != gone)
    if gone in state.in_sync and in_sync:
        state = _next(state, in_sync=in_sync)
    return elect(state, alive, unclean=unclean) if state.leader == gone else state


def welcome(
    state: PartitionState,
    come: int,
    alive: Collection[int],
    *,
    keeps_all: bool,
    same_directory: bool,
    unclean: bool = False,
) -> PartitionState:
    """A partition one of whose replicas has registered. `alive` holds it.

    `keeps_all`: it has everything it ever acknowledged. `same_directory`: it has come with the data it had before. Who
    comes without does not stay in the set even as its last member: then nobody has everything, and nobody leads until
    somebody is appointed uncleanly.
    """
    if come not in state.replicas:
        return state
    others = tuple(each for each in state.in_sync if each != come)
    if come in state.in_sync and ((not keeps_all and others) or not same_directory):
        state = _next(state, in_sync=others)
    if state.leader == come:
        # A new life: what it wrote in the last one is told apart by the epoch, even if it leads again.
        state = _led(state, NO_LEADER, state.in_sync)
    return elect(state, alive, unclean=unclean)


def exchange(state: PartitionState, wanted: tuple[int, ...]) -> PartitionState:
    """Begin to have other replicas, or another order of them; the old stay until the new have caught up."""
    present = present_replicas(state)
    leaving = tuple(each for each in state.replicas if each not in wanted)
    return _next(
        state,
        replicas=wanted + leaving,
        adding=tuple(each for each in wanted if each not in present),
        removing=leaving,
    )


def finish_exchange(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """End an exchange whose new replicas have all caught up; else the same state."""
    wanted = tuple(each for each in state.replicas if each not in state.removing)
    if not (state.adding or state.removing) or not set(wanted) & set(state.in_sync) >= set(state.adding):
        return state
    in_sync = tuple(each for each in state.in_sync if each in wanted)
    if not in_sync:
        return state  # the only ones that have everything are those that are to go
    return elect(_next(state, replicas=wanted, in_sync=in_sync, adding=(), removing=()), alive)


def cancel_exchange(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Go back to the replicas there were before."""
    replicas = present_replicas(state)
    in_sync = tuple(each for each in state.in_sync if each in replicas)
    if not in_sync:
        return state
    return elect(_next(state, replicas=replicas, in_sync=in_sync, adding=(), removing=()), alive)


def present_replicas(state: PartitionState) -> tuple[int, ...]:
    """The replicas without those that are being added."""
    return tuple(each for each in state.replicas if each not in state.adding)


def _first(replicas: tuple[int, ...], able: Collection[int], alive: Collection[int]) -> int:
    return next((each for each in replicas if each in able and each in alive), NO_LEADER)


def _led(state: PartitionState, leader: int, in_sync: tuple[int, ...]) -> PartitionState:
    return _next(state, leader=leader, leader_epoch=state.leader_epoch + 1, in_sync=in_sync)


def _next(state: PartitionState, **changed: object) -> PartitionState:
    return state._replace(partition_epoch=state.partition_epoch + 1, **changed)  # type: ignore[arg-type]
