"""What every assignor is asked, and what it answers."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base.ids import TopicId
from penstock.core.groups.partition_sets import Assignment

# By member id; whoever gets nothing may be left out.
Assignments: TypeAlias = dict[str, Assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberToAssign:
    """A member as assignors see it: what it wants, and what it was to have before."""

    member_id: str
    subscribed: frozenset[TopicId]
    instance_id: str | None = None
    rack_id: str | None = None
    assigned: Assignment = field(default_factory=dict)


# Members in any order, and how many partitions each subscribed topic has; yields between small steps.
Assignor: TypeAlias = Callable[
    [Sequence[MemberToAssign], Mapping[TopicId, int]], Generator[None, None, Assignments]
]
