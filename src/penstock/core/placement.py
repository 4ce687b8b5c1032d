"""Which brokers hold the replicas of new partitions. Racks are not looked at yet; the first replica leads."""

from collections.abc import Mapping, Sequence

from penstock.base.errors import ErrorCode, Refusal


def assign_replicas(
    *, brokers: Sequence[int], partition_count: int, replication_factor: int, start: int = 0
) -> list[tuple[int, ...]] | Refusal:
    """Replicas for `partition_count` new partitions, the first of which has number `start`.

    Leaders go round the brokers. The followers of one leader start one broker further with each round, so
    that when a broker fails its load goes to all the others and not to its neighbour alone. How many
    partitions there may be at most is checked before.
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
    return [
        _replicas(brokers, replication_factor, number) for number in range(start, start + partition_count)
    ]


def _replicas(brokers: Sequence[int], replication_factor: int, number: int) -> tuple[int, ...]:
    count = len(brokers)
    leader = number % count
    if replication_factor == 1:
        return (brokers[leader],)
    # Followers are counted among the others only, beginning somewhere else in every round.
    round_number = number // count
    others = [brokers[(leader + 1 + step) % count] for step in range(count - 1)]
    followers = (others[(round_number + step) % (count - 1)] for step in range(replication_factor - 1))
    return (brokers[leader], *followers)


def check_assignment(
    assignments: Mapping[int, Sequence[int]],
    *,
    brokers: Sequence[int],
    first: int = 0,
    replication_factor: int | None = None,
) -> list[tuple[int, ...]] | Refusal:
    """The replicas somebody chose for the partitions from `first` on, in order, if they can be had.

    All partitions need as many replicas as the first, or as `replication_factor` says.
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
