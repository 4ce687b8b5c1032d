"""Who may lead a partition and who counts as in sync, as brokers come and go. Pure: a state in, a state out.

What keeps an acknowledged write: only those lead that have all that is committed. Members of the in-sync set do. While
the set has fewer members than `min.insync.replicas` asks for, nothing is committed, so those that leave it then have
everything as well: they stay *eligible* until it has enough of them again, and lead when no member can. Who may have
lost something is neither any more before it can lead; but the last one stays, whatever happened to it, for nobody else
has everything.

A leader epoch begins with every leader, and whenever a partition has a replica less. A broker deletes what it is no
longer to have when it hears of it, and by then it may be to have it again. Until it has heard, it goes on fetching in
the epoch that it knows, and must not count as having what it is about to delete.
"""

from collections.abc import Collection

from penstock.cluster.metadata import NO_LEADER, PartitionState


def elect(state: PartitionState, alive: Collection[int], *, unclean: bool = False) -> PartitionState:
    """A leader for a partition: the first of its replicas that is in sync and alive; where there is none, the first
    that is eligible and alive.

    With `unclean`, where there is none either, any that is alive: what only others had is lost then. The same state if
    the present leader is fine, or nobody can lead and nobody does.
    """
    if state.leader != NO_LEADER and state.leader in alive and state.leader in state.isr:
        return state
    leader = _first(state.replicas, state.isr, alive)
    if leader != NO_LEADER:
        return _led(state, leader, state.isr)
    leader = _first(state.replicas, state.elr, alive)
    if leader != NO_LEADER:
        others = tuple(each for each in state.complete_replicas if each != leader)
        return _led(state, leader, (leader,))._replace(elr=others)
    if unclean:
        leader = _first(state.replicas, state.replicas, alive)
        if leader != NO_LEADER:
            return _led(state, leader, (leader,))._replace(elr=())
    return state if state.leader == NO_LEADER else _led(state, NO_LEADER, state.isr)


def elect_preferred(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """The first replica as leader, if it can."""
    preferred = state.replicas[0]
    if preferred == state.leader or preferred not in alive or preferred not in state.isr:
        return state
    return _led(state, preferred, state.isr)


def hand_over(state: PartitionState, leaving: int, alive: Collection[int]) -> PartitionState:
    """Another leader for a partition whose leader is about to stop, if there is one; else the same state."""
    others = [broker for broker in alive if broker != leaving]
    leader = _first(state.replicas, state.isr, others)
    if state.leader != leaving or leader == NO_LEADER:
        return state
    return _led(state, leader, state.isr)


def fence(
    state: PartitionState, gone: int, alive: Collection[int], *, min_isr: int = 1, unclean: bool = False
) -> PartitionState:
    """A partition one of whose replicas is gone. `alive` does not hold it.

    `min_isr` is the topic's `min.insync.replicas`.
    """
    isr = tuple(each for each in state.isr if each != gone)
    if gone in state.isr and isr:
        elr = state.elr_after(isr, min_isr=min_isr)
        state = state.changed(isr=isr, elr=elr)
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
    comes without does not stay even as the last one with everything: then nobody has it, and nobody leads until
    somebody is appointed uncleanly.
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
        # A new life: what it wrote in the last one is told apart by the epoch, even if it leads again.
        state = _led(state, NO_LEADER, state.isr)
    return elect(state, alive, unclean=unclean)


def without_needless(state: PartitionState, *, min_isr: int) -> PartitionState:
    """A partition whose topic asks for another number of members: if there are enough of them, nobody is eligible."""
    if not state.elr or len(state.isr) < state.needed_isr(min_isr):
        return state
    return state.changed(elr=())


def exchange(state: PartitionState, wanted: tuple[int, ...], alive: Collection[int]) -> PartitionState:
    """Begin to have other replicas, or another order of them; the old stay until the new have caught up.

    Those that an exchange under way would have added, and this one does not, go at once: they were never among the
    old, to which a cancelled exchange goes back.
    """
    state = _without(state, [each for each in state.adding if each not in wanted], alive)
    present = state.present_replicas
    leaving = tuple(each for each in state.replicas if each not in wanted)
    return state.changed(
        replicas=wanted + leaving,
        adding=tuple(each for each in wanted if each not in present),
        removing=leaving,
    )


def finish_exchange(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """End an exchange whose new replicas have all caught up; else the same state."""
    wanted = tuple(each for each in state.replicas if each not in state.removing)
    if not (state.adding or state.removing) or not set(wanted) & set(state.isr) >= set(state.adding):
        return state
    isr = tuple(each for each in state.isr if each in wanted)
    if not isr:
        return state  # the only ones that have everything are those that are to go
    return _reduced(state, alive, replicas=wanted, isr=isr, removing=())


def cancel_exchange(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Go back to the replicas there were before."""
    replicas = state.present_replicas
    isr = tuple(each for each in state.isr if each in replicas)
    if not isr:
        return state
    return _reduced(state, alive, replicas=replicas, isr=isr, removing=())


def _without(state: PartitionState, dropped: Collection[int], alive: Collection[int]) -> PartitionState:
    """A partition without replicas that were being added; with them, if nobody else has everything."""
    isr = tuple(each for each in state.isr if each not in dropped)
    if not dropped or not isr:
        return state
    replicas = tuple(each for each in state.replicas if each not in dropped)
    adding = tuple(each for each in state.adding if each not in dropped)
    return _reduced(state, alive, replicas=replicas, isr=isr, adding=adding, removing=state.removing)


def _reduced(
    state: PartitionState,
    alive: Collection[int],
    *,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...],
) -> PartitionState:
    """A partition with no other replicas than it had, and perhaps fewer."""
    elr = tuple(each for each in state.elr if each in replicas)
    reduced = state.changed(replicas=replicas, isr=isr, elr=elr, adding=adding, removing=removing)
    led = elect(reduced, alive)
    if led.leader_epoch > state.leader_epoch or set(replicas) == set(state.replicas):
        return led
    return _led(led, led.leader, isr)


def _first(replicas: tuple[int, ...], able: Collection[int], alive: Collection[int]) -> int:
    return next((each for each in replicas if each in able and each in alive), NO_LEADER)


def _led(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return state.changed(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)
