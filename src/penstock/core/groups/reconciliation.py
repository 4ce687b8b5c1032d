"""Reconciliation: one step of a member from its current to its target assignment, while other members keep consuming.

A member first revokes the partitions that are not in its target, and acknowledges that by a heartbeat without them.
Only then does it enter the target epoch, and it gets new partitions as soon as their owners have revoked them:

    STABLE      --target changed, has to revoke-->      UNREVOKED   (old epoch)
    STABLE      --target changed, nothing to revoke-->  STABLE or UNRELEASED (new epoch)
    UNREVOKED   --revoked those partitions-->           STABLE or UNRELEASED (new epoch)
    UNRELEASED  --others revoked theirs-->              STABLE
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from penstock.base.ids import TopicId
from penstock.core.groups.consumer_member import ConsumerMember, Epochs, MemberState
from penstock.core.groups.partition_sets import Assignment, common, together, without

FreeOf: TypeAlias = Callable[[TopicId, frozenset[int]], frozenset[int]]


def reconcile(
    member: ConsumerMember,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    free_of: FreeOf,
) -> ConsumerMember:
    """The member after this step; the same object if there is no step to take.

    `owned` is what its heartbeat says it owns, None if omitted; `free_of` gives those of a topic's partitions without
    an owner.
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
    """A member that omits its owned partitions is assumed to own all it was assigned."""
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
    """Whether nothing but the previous epoch differs: such a step is none."""
    return (
        one.epoch == other.epoch
        and one.state is other.state
        and one.assigned == other.assigned
        and one.pending_revocation == other.pending_revocation
    )
