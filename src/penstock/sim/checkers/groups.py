"""Checks of groups: the last committed offset is kept, and each partition is assigned to one member only."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from penstock.base.ids import TopicPartition
from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.history import NO_OFFSET, Commit, CommittedRead, History, LogName, OperationOutcome


def find_lost_commits(history: History) -> Iterator[Anomaly]:
    """What a group is said to have committed is what was set last, or may have been set since."""
    reads: dict[tuple[str, TopicPartition], list[CommittedRead]] = defaultdict(list)
    for read in history.committed_reads:
        reads[read.group, read.partition].append(read)
    for where, commits in _by_partition(history).items():
        setting: dict[int, list[Commit]] = defaultdict(list)
        for commit in commits:
            setting[commit.offset].append(commit)
        done = _Done(commits, lambda commit: commit.began)
        for read in sorted(reads[where], key=lambda each: each.began):
            newest = done.highest_before(read.began)
            if not _may_be_read(read, setting[read.offset], newest):
                last = max(done.before, key=lambda commit: commit.ended, default=None)
                told = (
                    "no commit was acknowledged"
                    if last is None
                    else f"{last.actor} got an acknowledgement that {last.offset}"
                )
                what = f"{told} is committed; later it was {read.offset}"
                yield Anomaly(AnomalyKind.LOST_COMMIT, log_of(*where), what)


def _may_be_read(read: CommittedRead, setting: Sequence[Commit], newest: Commit | None) -> bool:
    """`setting`: the commits of that offset. `newest`: the last begun of those acknowledged before the read."""
    if read.offset == NO_OFFSET:
        return newest is None
    return any(
        commit.outcome is OperationOutcome.UNKNOWN
        or (commit.outcome is OperationOutcome.OK and (newest is None or newest.began <= commit.ended))
        for commit in setting
        if commit.began <= read.ended
    )


class _Done:
    """Acknowledged commits, by when they ended. `highest_before` is called with ascending moments."""

    def __init__(self, commits: Sequence[Commit], rank: Callable[[Commit], int]) -> None:
        done = [commit for commit in commits if commit.outcome is OperationOutcome.OK]
        self._ending = sorted(done, key=lambda commit: commit.ended, reverse=True)
        self._rank = rank
        self._highest: Commit | None = None
        self.before: list[Commit] = []  # those that ended before the last moment asked for

    def highest_before(self, moment: int) -> Commit | None:
        """The commit with the highest rank of those that ended before a moment."""
        while self._ending and self._ending[-1].ended < moment:
            commit = self._ending.pop()
            self.before.append(commit)
            if self._highest is None or self._rank(commit) > self._rank(self._highest):
                self._highest = commit
        return self._highest


def find_backward_commits(history: History) -> Iterator[Anomaly]:
    """Members continue at the group's committed offset, so it never decreases.

    Except after a commit without an answer: it may have been applied late.
    """
    for where, commits in _by_partition(history).items():
        late = [commit for commit in commits if commit.outcome is OperationOutcome.UNKNOWN]
        done = _Done(commits, lambda commit: commit.offset)
        for commit in sorted(commits, key=lambda each: each.began):
            before = done.highest_before(commit.began)
            if commit.outcome is not OperationOutcome.OK or before is None or before.offset <= commit.offset:
                continue
            if not any(each.offset < before.offset and each.began < commit.ended for each in late):
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
