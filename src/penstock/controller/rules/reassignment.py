"""The steps of a reassignment: begin, complete, cancel. Pure: a state in, a state out.

Replicas to remove stay until all new ones are in the ISR. Topics with `penstock.ack.quorum=majority` have steps of
their own (`rules.majority_partitions`). `services.replication.replication_quotas` throttles the copying.
"""

from collections.abc import Collection

from penstock.cluster.metadata import PartitionState
from penstock.controller.rules.leader_election import elect, with_leader


def begin_reassignment(
    state: PartitionState, wanted: tuple[int, ...], alive: Collection[int]
) -> PartitionState:
    """Add the wanted replicas, or put them into another order; the others are to be removed.

    Replicas that an ongoing reassignment is adding, and this one does not want, are removed at once: they are not among
    the replicas to which a cancelled reassignment returns.
    """
    state = _without_adding(state, [each for each in state.adding if each not in wanted], alive)
    present = state.present_replicas
    leaving = tuple(each for each in state.replicas if each not in wanted)
    return state.changed(
        replicas=wanted + leaving,
        adding=tuple(each for each in wanted if each not in present),
        removing=leaving,
    )


def complete_reassignment(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Remove the replicas in `removing` if all new ones are in the ISR; else the same state."""
    wanted = tuple(each for each in state.replicas if each not in state.removing)
    if not (state.adding or state.removing) or not set(wanted) & set(state.isr) >= set(state.adding):
        return state
    isr = tuple(each for each in state.isr if each in wanted)
    if not isr:
        return state  # only replicas in `removing` have all committed records
    return _with_fewer_replicas(state, alive, replicas=wanted, isr=isr, removing=())


def cancel_reassignment(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Return to the replicas before the reassignment; the same state if none of them is in the ISR."""
    replicas = state.present_replicas
    isr = tuple(each for each in state.isr if each in replicas)
    if not isr:
        return state
    return _with_fewer_replicas(state, alive, replicas=replicas, isr=isr, removing=())


def _without_adding(
    state: PartitionState, dropped: Collection[int], alive: Collection[int]
) -> PartitionState:
    """The partition without some of the replicas that are being added; the same state if only they are in the ISR."""
    isr = tuple(each for each in state.isr if each not in dropped)
    if not dropped or not isr:
        return state
    replicas = tuple(each for each in state.replicas if each not in dropped)
    adding = tuple(each for each in state.adding if each not in dropped)
    return _with_fewer_replicas(
        state, alive, replicas=replicas, isr=isr, adding=adding, removing=state.removing
    )


def _with_fewer_replicas(
    state: PartitionState,
    alive: Collection[int],
    *,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...],
) -> PartitionState:
    """The partition with some of its replicas, in a new leader epoch if one was removed: `leader_election` says why."""
    elr = tuple(each for each in state.elr if each in replicas)
    reduced = state.changed(replicas=replicas, isr=isr, elr=elr, adding=adding, removing=removing)
    led = elect(reduced, alive)
    if led.leader_epoch > state.leader_epoch or set(replicas) == set(state.replicas):
        return led
    return with_leader(led, led.leader, isr)
