"""What groups keep and deal out: the last offset that was committed, and each partition to one member only."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from penstock.base.ids import TopicPartition
from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.history import NO_OFFSET, Commit, CommittedRead, History, LogName, Outcome


def find_lost_commits(history: History) -> Iterator[Anomaly]:
    """What a group is said to have committed is what was set last, or may have been set since."""
    for where, commits in _by_partition(history).items():
        for read in history.committed_reads:
            if (read.group, read.partition) == where and not _may_be_read(read, commits):
                last = max(
                    (commit for commit in commits if _is_done_before(commit, read.began)),
                    key=lambda commit: commit.ended,
                )
                what = f"{last.actor} was told that {last.offset} is committed; later it was {read.offset}"
                yield Anomaly(AnomalyKind.LOST_COMMIT, log_of(*where), what)


def _may_be_read(read: CommittedRead, commits: Sequence[Commit]) -> bool:
    done = [commit for commit in commits if _is_done_before(commit, read.began)]
    if read.offset == NO_OFFSET:
        return not done
    for commit in commits:
        if commit.offset != read.offset or commit.outcome is Outcome.FAILED or commit.began > read.ended:
            continue
        if commit.outcome is Outcome.UNKNOWN or not any(later.began > commit.ended for later in done):
            return True
    return False


def _is_done_before(commit: Commit, moment: int) -> bool:
    return commit.outcome is Outcome.OK and commit.ended < moment


def find_backward_commits(history: History) -> Iterator[Anomaly]:
    """Members go on from where their group is, so it never goes back.

    But for a commit that nobody heard of again: it may have come late, and have taken the group back itself.
    """
    for where, commits in _by_partition(history).items():
        done = [commit for commit in commits if commit.outcome is Outcome.OK]
        late = [commit for commit in commits if commit.outcome is Outcome.UNKNOWN]
        for commit in done:
            before = max(
                (each for each in done if each.ended < commit.began),
                key=lambda each: each.offset,
                default=commit,
            )
            came_late = any(each.offset < before.offset and each.began < commit.ended for each in late)
            if before.offset > commit.offset and not came_late:
                what = f"{commit.actor} set {commit.offset} after {before.actor} had set {before.offset}"
                yield Anomaly(AnomalyKind.BACKWARD_COMMIT, log_of(*where), what)


def find_shared_partitions(history: History) -> Iterator[Anomaly]:
    generations: dict[tuple[str, int], dict[str, set[TopicPartition]]] = {}
    for holding in history.holdings:
        members = generations.setdefault((holding.group, holding.generation), {})
        members.setdefault(holding.member, set()).update(holding.partitions)
    for (group, generation), members in generations.items():
        for one, other in combinations(members, 2):
            for partition in sorted(members[one] & members[other]):
                what = f"{one} and {other} both have it in generation {generation}"
                yield Anomaly(AnomalyKind.SHARED_PARTITION, log_of(group, partition), what)


def log_of(group: str, partition: TopicPartition) -> LogName:
    """A group's view of a partition, as anomalies name it."""
    return LogName(partition.topic, f"group {group}", partition.partition)


def _by_partition(history: History) -> dict[tuple[str, TopicPartition], list[Commit]]:
    found: dict[tuple[str, TopicPartition], list[Commit]] = {
        (read.group, read.partition): [] for read in history.committed_reads
    }
    for commit in history.commits:
        found.setdefault((commit.group, commit.partition), []).append(commit)
    return found
