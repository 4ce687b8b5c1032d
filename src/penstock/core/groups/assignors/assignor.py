"""The interface of assignors: members and partition counts in, target assignments out."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base.ids import TopicId
from penstock.core.groups.partition_sets import Assignment

# By member id; a member without partitions may be left out.
Assignments: TypeAlias = dict[str, Assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberToAssign:
    """A member as assignors see it: its subscription, and its previous target assignment."""

    member_id: str
    subscribed: frozenset[TopicId]
    instance_id: str | None = None
    rack_id: str | None = None
    assigned: Assignment = field(default_factory=dict)


# Members in any order, and how many partitions each subscribed topic has; yields between small steps.
Assignor: TypeAlias = Callable[
    [Sequence[MemberToAssign], Mapping[TopicId, int]], Generator[None, None, Assignments]
]
