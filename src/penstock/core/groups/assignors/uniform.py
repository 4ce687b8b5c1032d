"""The uniform assignor: every member gets the same number of partitions, with as few moves as possible.

It starts from the previous target assignment. A member keeps a partition if it still subscribes to the topic, the
partition exists, and no earlier member has it. Unassigned partitions go to the members with the fewest.

If all members subscribe to the same topics, the target sizes are known in advance and differ by one at most; no member
keeps more (`_share_out`). If they subscribe to different topics, partitions move from members with many to members with
few, until no move of a single partition would bring two members closer together (`_Balance`). Topics with the same
subscribers form one pool: it makes no difference of which of them a partition is.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, TypeAlias

from penstock.base.ids import TopicId
from penstock.core.groups.assignors.assignor import Assignments, MemberToAssign
from penstock.core.groups.partition_sets import Assignment

_Partition: TypeAlias = tuple[TopicId, int]
_Steps: TypeAlias = Generator[None, None, None]

# Elementary steps between two yields: well under a millisecond's worth.
_STEPS_IN_ONE_GO: Final = 500


def assign_uniformly(
    members: Sequence[MemberToAssign], partition_counts: Mapping[TopicId, int]
) -> Generator[None, None, Assignments]:
    if not members:
        return {}
    in_order = sorted(members, key=lambda member: member.member_id)
    first = in_order[0].subscribed
    if all(member.subscribed == first for member in in_order):
        shares = yield from _share_out(in_order, partition_counts)
    else:
        balance = _Balance(in_order, partition_counts)
        yield from balance.keep()
        yield from balance.give()
        yield from balance.move()
        shares = balance.shares
    assignments: Assignments = {}
    for member_id, share in shares.items():
        assignments[member_id] = _as_assignment(share)
        yield
    return assignments


def _share_out(
    members: Sequence[MemberToAssign], partition_counts: Mapping[TopicId, int]
) -> Generator[None, None, dict[str, list[_Partition]]]:
    """All members subscribe to the same topics."""
    subscribed = members[0].subscribed
    counts = {topic_id: count for topic_id, count in partition_counts.items() if topic_id in subscribed}
    size, larger = divmod(sum(counts.values()), len(members))
    shares: dict[str, list[_Partition]] = {}
    taken: set[_Partition] = set()
    for member in members:
        most = size + (larger > 0)
        kept: list[_Partition] = []
        for partition in _still_valid(member, counts):
            if len(kept) == most:
                break
            if partition not in taken:
                taken.add(partition)
                kept.append(partition)
        larger -= len(kept) > size
        shares[member.member_id] = kept
        yield
    unassigned = (
        (topic_id, partition)
        for topic_id in sorted(counts)
        for partition in range(counts[topic_id])
        if (topic_id, partition) not in taken
    )
    for share in shares.values():
        if len(share) > size:
            continue
        wanted = size + (larger > 0) - len(share)
        larger -= larger > 0
        for _ in range(wanted):
            share.append(next(unassigned))
        yield
    return shares


class _Pool:
    """The partitions of all topics that the same members subscribe to."""

    def __init__(self, subscribers: Iterable[str]) -> None:
        self.subscribers = list(subscribers)
        self.unassigned: list[_Partition] = []
        self.owned: dict[str, list[_Partition]] = {member_id: [] for member_id in self.subscribers}


class _Balance:
    """Members that subscribe to different topics."""

    def __init__(self, members: Sequence[MemberToAssign], partition_counts: Mapping[TopicId, int]) -> None:
        self.members = members
        self.counts = partition_counts
        self.shares: dict[str, list[_Partition]] = {member.member_id: [] for member in members}
        self.loads: dict[str, int] = dict.fromkeys(self.shares, 0)
        self.taken: set[_Partition] = set()
        self.pools: list[_Pool] = []

    def keep(self) -> _Steps:
        """Keep what is still valid of the previous assignment, and sort the topics into pools."""
        pool_of_topic = yield from self._find_pools()
        for member in self.members:
            for partition in _still_valid(member, self.counts):
                if partition not in self.taken:
                    self.taken.add(partition)
                    pool_of_topic[partition[0]].owned[member.member_id].append(partition)
                    self.loads[member.member_id] += 1
            yield
        for topic_id, pool in pool_of_topic.items():
            partitions = ((topic_id, partition) for partition in range(self.counts[topic_id]))
            pool.unassigned.extend(partition for partition in partitions if partition not in self.taken)
            yield

    def _find_pools(self) -> Generator[None, None, dict[TopicId, _Pool]]:
        subscribers: dict[TopicId, list[str]] = {}
        for member in self.members:
            for topic_id in member.subscribed:
                subscribers.setdefault(topic_id, []).append(member.member_id)
            yield
        pools: dict[tuple[str, ...], _Pool] = {}
        pool_of_topic: dict[TopicId, _Pool] = {}
        for topic_id in sorted(subscribers):
            if topic_id in self.counts:
                key = tuple(subscribers[topic_id])
                pool_of_topic[topic_id] = pools.setdefault(key, _Pool(key))
                yield
        # Pools with the fewest subscribers first: members without a choice are filled before those with one.
        self.pools = sorted(pools.values(), key=lambda pool: len(pool.subscribers))
        return pool_of_topic

    def give(self) -> _Steps:
        """Give each unassigned partition to the subscriber with the fewest partitions."""
        for pool in self.pools:
            heap = [(self.loads[member_id], member_id) for member_id in pool.subscribers]
            heapify(heap)
            for step, partition in enumerate(pool.unassigned):
                load, member_id = heap[0]
                pool.owned[member_id].append(partition)
                self.loads[member_id] = load + 1
                heapreplace(heap, (load + 1, member_id))
                if step % _STEPS_IN_ONE_GO == 0:
                    yield
            yield

    def move(self) -> _Steps:
        """Even out pool by pool until nothing moves; every move makes the loads more equal, so this ends."""
        moved = True
        while moved:
            moved = False
            for pool in self.pools:
                moved |= yield from self._even_out(pool)
        for pool in self.pools:
            for member_id, owned in pool.owned.items():
                self.shares[member_id].extend(owned)
            yield

    def _even_out(self, pool: _Pool) -> Generator[None, None, bool]:
        yield
        richest = [(-self.loads[member_id], member_id) for member_id, owned in pool.owned.items() if owned]
        poorest = [(self.loads[member_id], member_id) for member_id in pool.subscribers]
        heapify(richest)
        heapify(poorest)
        moves = 0
        while richest:
            load, giver = -richest[0][0], richest[0][1]
            if load != self.loads[giver] or not pool.owned[giver]:
                heappop(richest)
                continue
            least, taker = poorest[0]
            if least != self.loads[taker]:
                heappop(poorest)
                continue
            if load - least < 2:
                break
            pool.owned[taker].append(pool.owned[giver].pop())
            self.loads[giver] -= 1
            self.loads[taker] += 1
            for member_id in (giver, taker):
                heappush(richest, (-self.loads[member_id], member_id))
                heappush(poorest, (self.loads[member_id], member_id))
            moves += 1
            if moves % _STEPS_IN_ONE_GO == 0:
                yield
        return moves > 0


def _still_valid(member: MemberToAssign, partition_counts: Mapping[TopicId, int]) -> Iterator[_Partition]:
    for topic_id in sorted(member.assigned):
        if topic_id in member.subscribed:
            partition_count = partition_counts.get(topic_id, 0)
            for partition in sorted(member.assigned[topic_id]):
                if partition < partition_count:
                    yield topic_id, partition


def _as_assignment(share: Iterable[_Partition]) -> Assignment:
    gathered: dict[TopicId, set[int]] = {}
    for topic_id, partition in share:
        gathered.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in gathered.items()}
