"""The range assignor: of each topic, each subscriber gets a run of neighbouring partitions.

Members are sorted (static members first, by instance id; then the others, by member id), so that topics of the same
size with the same subscribers are co-partitioned: the member with partition 3 of one topic has partition 3 of the
other. If the partitions cannot be divided evenly, the first members get one more each. The previous assignment is not
considered.
"""

from collections.abc import Generator, Mapping, Sequence

from penstock.base.ids import TopicId
from penstock.core.groups.assignors.assignor import Assignments, MemberToAssign


def assign_ranges(
    members: Sequence[MemberToAssign], partition_counts: Mapping[TopicId, int]
) -> Generator[None, None, Assignments]:
    in_order = sorted(members, key=_place)
    shares: dict[str, dict[TopicId, frozenset[int]]] = {member.member_id: {} for member in in_order}
    for topic_id, partition_count in partition_counts.items():
        subscribers = [member.member_id for member in in_order if topic_id in member.subscribed]
        yield
        if subscribers:
            _cut(topic_id, partition_count, subscribers, shares)
            yield
    return dict(shares)


def _cut(
    topic_id: TopicId,
    partition_count: int,
    subscribers: Sequence[str],
    shares: Mapping[str, dict[TopicId, frozenset[int]]],
) -> None:
    size, larger = divmod(partition_count, len(subscribers))
    start = 0
    for index, member_id in enumerate(subscribers):
        end = start + size + (index < larger)
        if end == start:
            break
        shares[member_id][topic_id] = frozenset(range(start, end))
        start = end


def _place(member: MemberToAssign) -> tuple[bool, str]:
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member.member_id
