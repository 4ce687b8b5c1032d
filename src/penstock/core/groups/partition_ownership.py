"""Who holds which partition in a group of the consumer protocol: nobody else may get it.

Whole topics at a time, as sets: a member may hold ten thousand partitions.
"""

from dataclasses import dataclass, field

from penstock.base.ids import TopicId
from penstock.core.groups.assignment import Assignment


@dataclass(slots=True)
class PartitionOwners:
    """At most one member for each partition."""

    _by_topic: dict[TopicId, dict[int, str]] = field(default_factory=dict)

    def copy(self) -> "PartitionOwners":
        return PartitionOwners({topic_id: held.copy() for topic_id, held in self._by_topic.items()})

    def free_of(self, topic_id: TopicId, partitions: frozenset[int]) -> frozenset[int]:
        """Those of the partitions that nobody holds."""
        return partitions.difference(self._by_topic.get(topic_id, ()))

    def take(self, member_id: str, partitions: Assignment) -> None:
        """They are this member's now, whosever they were."""
        for topic_id, numbers in partitions.items():
            self._by_topic.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))

    def release(self, member_id: str, partitions: Assignment) -> None:
        """Those of them that are this member's are nobody's now."""
        for topic_id, numbers in partitions.items():
            held = self._by_topic.get(topic_id, {})
            for number in numbers:
                if held.get(number) == member_id:
                    del held[number]
            if not held:
                self._by_topic.pop(topic_id, None)
