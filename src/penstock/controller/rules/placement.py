"""Which brokers hold the replicas of new partitions: spread over brokers and racks. The first replica leads."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from penstock.base.errors import ErrorCode, Refusal


def assign_replicas(
    *,
    brokers: Sequence[int],
    partition_count: int,
    replication_factor: int,
    start: int = 0,
    racks: Mapping[int, str | None] | None = None,
) -> list[tuple[int, ...]] | Refusal:
    """Replicas for `partition_count` new partitions, the first of which has number `start`.

    Leaders are assigned round-robin. The followers of one leader start one broker further with each round, so that the
    load of a failed broker goes to all others and not to its neighbour alone. No two replicas are in one rack as long
    as there are racks without a replica. The caller has checked the maximum number of partitions.
    """
    if partition_count < 1:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS, f"{partition_count} partitions were asked for; at least 1 is needed"
        )
    if not 1 <= replication_factor <= len(brokers):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {replication_factor} cannot be had with {len(brokers)} broker(s)",
        )
    of_rack = racks or {}
    brokers = _alternating(brokers, of_rack)
    return [
        _replicas(brokers, of_rack, replication_factor, number)
        for number in range(start, start + partition_count)
    ]


def _alternating(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """The brokers in an order in which neighbours are in different racks, as far as possible."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker), []).append(broker)
    turns = zip_longest(*by_rack.values())
    return [broker for turn in turns for broker in turn if broker is not None]


def _replicas(
    brokers: Sequence[int], racks: Mapping[int, str | None], replication_factor: int, number: int
) -> tuple[int, ...]:
    count = len(brokers)
    leader = number % count
    if replication_factor == 1:
        return (brokers[leader],)
    # Followers are chosen from the other brokers, starting at another one in every round.
    round_number = number // count
    others = [brokers[(leader + 1 + step) % count] for step in range(count - 1)]
    candidates = [others[(round_number + step) % (count - 1)] for step in range(count - 1)]
    chosen = [brokers[leader]]
    while len(chosen) < replication_factor:
        taken = {racks.get(broker) for broker in chosen}
        elsewhere = (broker for broker in candidates if racks.get(broker) not in taken)
        found = next(elsewhere, candidates[0])
        candidates.remove(found)
        chosen.append(found)
    return tuple(chosen)


def check_assignment(
    assignments: Mapping[int, Sequence[int]],
    *,
    brokers: Sequence[int],
    first: int = 0,
    replication_factor: int | None = None,
) -> list[tuple[int, ...]] | Refusal:
    """Check a manual assignment of replicas to the partitions from `first` on; returns them in order, or a Refusal.

    All partitions need as many replicas as the first one, or as `replication_factor`.
    """
    if sorted(assignments) != list(range(first, first + len(assignments))):
        return _refuse(f"partitions have to be numbered from {first} on without a gap")
    replicas = [tuple(assignments[number]) for number in sorted(assignments)]
    for number, chosen in enumerate(replicas, start=first):
        problem = _problem(chosen, brokers)
        if problem is not None:
            return _refuse(f"partition {number} {problem}")
        if replication_factor is None:
            replication_factor = len(chosen)
        if len(chosen) != replication_factor:
            return _refuse(
                f"partition {number} has {len(chosen)} replica(s) where the others have {replication_factor}"
            )
    return replicas


def _problem(replicas: Sequence[int], brokers: Sequence[int]) -> str | None:
    if not replicas:
        return "has no replica"
    for broker in replicas:
        if broker not in brokers:
            return f"is to be on broker {broker}, which is not there"
        if replicas.count(broker) > 1:
            return f"is to be on broker {broker} more than once"
    return None


def _refuse(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
