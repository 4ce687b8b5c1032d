"""Which member of a consumer group owns which partition; no other member may get it before it is revoked.

Kept by topic, as sets: a member may own ten thousand partitions.
"""

from dataclasses import dataclass, field

from penstock.base.ids import TopicId
from penstock.core.groups.partition_sets import Assignment


@dataclass(slots=True)
class PartitionOwners:
    """At most one owner per partition."""

    _by_topic: dict[TopicId, dict[int, str]] = field(default_factory=dict)

    def copy(self) -> "PartitionOwners":
        return PartitionOwners({topic_id: held.copy() for topic_id, held in self._by_topic.items()})

    def free_of(self, topic_id: TopicId, partitions: frozenset[int]) -> frozenset[int]:
        """Those of the partitions that no member owns."""
        return partitions.difference(self._by_topic.get(topic_id, ()))

    def take(self, member_id: str, partitions: Assignment) -> None:
        """Make the member the owner of these partitions, in place of any owner before."""
        for topic_id, numbers in partitions.items():
            self._by_topic.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))

    def release(self, member_id: str, partitions: Assignment) -> None:
        """Free those of the partitions that this member owns."""
        for topic_id, numbers in partitions.items():
            held = self._by_topic.get(topic_id, {})
            for number in numbers:
                if held.get(number) == member_id:
                    del held[number]
            if not held:
                self._by_topic.pop(topic_id, None)
