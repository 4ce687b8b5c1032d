"""Server-side assignors of the consumer protocol (KIP-848): compute the target assignment of a group.

An assignor takes the members' subscriptions and the previous target assignment, and returns the new one. Moving members
to it is `reconciliation`. A group of a thousand members takes longer than the event loop may be blocked, so assignors
are generators that yield between small steps and return the result.

    uniform    every member gets the same number of partitions, with as few moves as possible (the default)
    range      every member gets a range of each topic's partitions, the same range of topics of equal size

The rack of members is known and not considered, as in Apache Kafka 4.3.
"""

from typing import Final

from penstock.core.groups.assignors.assignor import Assignments, Assignor, MemberToAssign
from penstock.core.groups.assignors.range import assign_ranges
from penstock.core.groups.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Assignments", "Assignor", "MemberToAssign"]

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
DEFAULT_ASSIGNOR: Final = "uniform"
