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
    if state.leader != NO_LEADER and state.leader in alive and state.leader in state.in_sync:
        return state
    leader = _first(state.replicas, state.in_sync, alive)
    if leader != NO_LEADER:
        return _led(state, leader, state.in_sync)
    leader = _first(state.replicas, state.eligible, alive)
    if leader != NO_LEADER:
        others = tuple(each for each in _with_everything(state) if each != leader)
        return _led(state, leader, (leader,))._replace(eligible=others)
    if unclean:
        leader = _first(state.replicas, state.replicas, alive)
        if leader != NO_LEADER:
            return _led(state, leader, (leader,))._replace(eligible=())
    return state if state.leader == NO_LEADER else _led(state, NO_LEADER, state.in_sync)


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
    state: PartitionState, gone: int, alive: Collection[int], *, min_in_sync: int = 1, unclean: bool = False
) -> PartitionState:
    """A partition one of whose replicas is gone. `alive` does not hold it.

    `min_in_sync` is the topic's `min.insync.replicas`.
    """
    in_sync = tuple(each for each in state.in_sync if each != gone)
    if gone in state.in_sync and in_sync:
        eligible = eligible_after(state, in_sync, min_in_sync=min_in_sync)
        state = state.changed(in_sync=in_sync, eligible=eligible)
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
    known = _with_everything(state)
    if come in known and ((not keeps_all and len(known) > 1) or not same_directory):
        state = state.changed(
            in_sync=tuple(each for each in state.in_sync if each != come),
            eligible=tuple(each for each in state.eligible if each != come),
        )
    if state.leader == come:
        # A new life: what it wrote in the last one is told apart by the epoch, even if it leads again.
        state = _led(state, NO_LEADER, state.in_sync)
    return elect(state, alive, unclean=unclean)


def eligible_after(state: PartitionState, in_sync: tuple[int, ...], *, min_in_sync: int) -> tuple[int, ...]:
    """Who is eligible when a partition gets that in-sync set: all that had everything until then, if it is too small to
    commit more. Nobody, if it is not.
    """
    if len(in_sync) >= state.needed_in_sync(min_in_sync):
        return ()
    return tuple(each for each in _with_everything(state) if each not in in_sync)


def without_needless(state: PartitionState, *, min_in_sync: int) -> PartitionState:
    """A partition whose topic asks for another number of members: if there are enough of them, nobody is eligible."""
    if not state.eligible or len(state.in_sync) < state.needed_in_sync(min_in_sync):
        return state
    return state.changed(eligible=())


def exchange(state: PartitionState, wanted: tuple[int, ...], alive: Collection[int]) -> PartitionState:
    """Begin to have other replicas, or another order of them; the old stay until the new have caught up.

    Those that an exchange under way would have added, and this one does not, go at once: they were never among the
    old, to which a cancelled exchange goes back.
    """
    state = _without(state, [each for each in state.adding if each not in wanted], alive)
    present = present_replicas(state)
    leaving = tuple(each for each in state.replicas if each not in wanted)
    return state.changed(
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
    return _reduced(state, alive, replicas=wanted, in_sync=in_sync, removing=())


def cancel_exchange(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Go back to the replicas there were before."""
    replicas = present_replicas(state)
    in_sync = tuple(each for each in state.in_sync if each in replicas)
    if not in_sync:
        return state
    return _reduced(state, alive, replicas=replicas, in_sync=in_sync, removing=())


def present_replicas(state: PartitionState) -> tuple[int, ...]:
    """The replicas without those that are being added."""
    return tuple(each for each in state.replicas if each not in state.adding)


def _without(state: PartitionState, dropped: Collection[int], alive: Collection[int]) -> PartitionState:
    """A partition without replicas that were being added; with them, if nobody else has everything."""
    in_sync = tuple(each for each in state.in_sync if each not in dropped)
    if not dropped or not in_sync:
        return state
    replicas = tuple(each for each in state.replicas if each not in dropped)
    adding = tuple(each for each in state.adding if each not in dropped)
    return _reduced(state, alive, replicas=replicas, in_sync=in_sync, adding=adding, removing=state.removing)


def _reduced(
    state: PartitionState,
    alive: Collection[int],
    *,
    replicas: tuple[int, ...],
    in_sync: tuple[int, ...],
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...],
) -> PartitionState:
    """A partition with no other replicas than it had, and perhaps fewer."""
    eligible = tuple(each for each in state.eligible if each in replicas)
    reduced = state.changed(
        replicas=replicas, in_sync=in_sync, eligible=eligible, adding=adding, removing=removing
    )
    led = elect(reduced, alive)
    if led.leader_epoch > state.leader_epoch or set(replicas) == set(state.replicas):
        return led
    return _led(led, led.leader, in_sync)


def _with_everything(state: PartitionState) -> tuple[int, ...]:
    """The replicas that have all that is committed, unless they have lost it and nobody knows yet."""
    return tuple(each for each in state.replicas if each in state.in_sync or each in state.eligible)


def _first(replicas: tuple[int, ...], able: Collection[int], alive: Collection[int]) -> int:
    return next((each for each in replicas if each in able and each in alive), NO_LEADER)


def _led(state: PartitionState, leader: int, in_sync: tuple[int, ...]) -> PartitionState:
    return state.changed(leader=leader, leader_epoch=state.leader_epoch + 1, in_sync=in_sync)
