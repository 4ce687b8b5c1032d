"""One step of a member from what it has to what it shall have; nobody else has to stop for it.

A member first gives up what is no longer its own, and says so by no longer owning it in a heartbeat. Only then does it
enter the target's epoch, and it gets what is new as soon as nobody else holds it:

    STABLE      --target moved, has to give up-->     UNREVOKED   (old epoch)
    STABLE      --target moved, nothing to give up--> STABLE or UNRELEASED (new epoch)
    UNREVOKED   --no longer owns those partitions-->  STABLE or UNRELEASED (new epoch)
    UNRELEASED  --others gave up theirs-->            STABLE
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from penstock.base.ids import TopicId
from penstock.core.groups.assignment import Assignment, common, together, without
from penstock.core.groups.consumer_member import ConsumerMember, Epochs, MemberState

FreeOf: TypeAlias = Callable[[TopicId, frozenset[int]], frozenset[int]]


def reconcile(
    member: ConsumerMember,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    free_of: FreeOf,
) -> ConsumerMember:
    """The member after this step; the same object if there is none to take.

    `owned` is what it says it owns, None if it says nothing; `free_of` says which of a topic's partitions nobody holds.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED and _still_owns(owned, member.pending_revocation):
        return member
    moved = _step(member, target, target_epoch, owned, free_of)
    return member if _is_same_place(moved, member) else moved


def _step(
    member: ConsumerMember,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    free_of: FreeOf,
) -> ConsumerMember:
    kept = common(member.assigned, target)
    to_revoke = without(member.assigned, target)
    if to_revoke and _still_owns(owned, to_revoke):
        return replace(
            member,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED,
            assigned=kept,
            pending_revocation=to_revoke,
        )
    to_assign = without(target, kept)
    free = _only_free(to_assign, free_of)
    assigned = together(kept, free)
    return replace(
        member.at_epoch(target_epoch),
        state=MemberState.STABLE if free == to_assign else MemberState.UNRELEASED,
        assigned=assigned,
        pending_revocation={},
        since=_since(member.since, assigned, target_epoch),
    )


def _still_owns(owned: Assignment | None, partitions: Assignment) -> bool:
    """Who says nothing may own everything."""
    return owned is None or bool(common(owned, partitions))


def _only_free(assignment: Assignment, free_of: FreeOf) -> Assignment:
    free = ((topic_id, free_of(topic_id, partitions)) for topic_id, partitions in assignment.items())
    return {topic_id: partitions for topic_id, partitions in free if partitions}


def _since(before: Epochs, assigned: Assignment, epoch: int) -> Epochs:
    return {
        topic_id: _since_in_topic(before.get(topic_id, {}), partitions, epoch)
        for topic_id, partitions in assigned.items()
    }


def _since_in_topic(before: Mapping[int, int], partitions: frozenset[int], epoch: int) -> dict[int, int]:
    return {partition: before.get(partition, epoch) for partition in sorted(partitions)}


def _is_same_place(one: ConsumerMember, other: ConsumerMember) -> bool:
    """The previous epoch aside: a step that ends where it began is none."""
    return (
        one.epoch == other.epoch
        and one.state is other.state
        and one.assigned == other.assigned
        and one.pending_revocation == other.pending_revocation
    )
