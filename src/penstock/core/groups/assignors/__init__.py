"""Who shall have which partitions: the assignors of the consumer protocol, on the coordinator's side.

An assignor looks at the members' subscriptions and at what they were to have before, and says what each shall
have now. It decides nothing about how to get there: that is `reconciliation`. A group of a thousand members
takes longer than the loop may stand still, so assignors are generators that yield between small steps and
return the result.

    uniform    everybody the same number of partitions, and as few moves as possible (the default)
    range      of each topic a run of partitions to each member, the same run of topics of equal size

The rack of members is known and not considered, as in Apache Kafka 4.3.
"""

from typing import Final

from penstock.core.groups.assignors.asked import Assignments, Assignor, MemberToAssign
from penstock.core.groups.assignors.range import assign_ranges
from penstock.core.groups.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "Assignments", "Assignor", "MemberToAssign"]

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
DEFAULT_ASSIGNOR: Final = "uniform"
