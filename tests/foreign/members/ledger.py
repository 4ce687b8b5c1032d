"""What the members of one group said: who owned what and read what when, and what is wrong with it."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Read:
    member: str
    partition: int
    offset: int
    value: str
    at_ns: int


@dataclass
class Tenure:
    """A partition in one member's hands; until_ns is None as long as it has it."""

    member: str
    partition: int
    from_ns: int
    until_ns: int | None = None

    def covers(self, at_ns: int) -> bool:
        return self.from_ns <= at_ns and (self.until_ns is None or at_ns <= self.until_ns)


@dataclass(frozen=True)
class Commit:
    """An acknowledged offset commit: no member may read a record before the offset after it."""

    partition: int
    offset: int
    at_ns: int

    def covers(self, read: Read) -> bool:
        return self.partition == read.partition and self.offset > read.offset


class Ledger:
    def __init__(self) -> None:
        self.reads: list[Read] = []
        self.tenures: list[Tenure] = []
        self.troubles: list[str] = []
        self._commits: list[Commit] = []
        self._killed_ns: dict[str, int] = {}
        self._broker_killed_ns: int | None = None

    def enter(self, member: str, event: dict[str, Any]) -> None:
        at_ns = event["at_ns"]
        match event["what"]:
            case "assigned":
                self.tenures += [Tenure(member, partition, at_ns) for partition in event["partitions"]]
            case "revoked":
                self._end(member, event["partitions"], at_ns)
            case "read":
                read = Read(member, event["partition"], event["offset"], event["value"], at_ns)
                self.reads.append(read)
            case "committed":
                self._commits += [
                    Commit(int(partition), offset, at_ns) for partition, offset in event["offsets"].items()
                ]
            case "trouble":
                self.troubles.append(f"{member}: {event['error']}")

    def enter_killed(self, member: str, at_ns: int) -> None:
        """From this moment on it does nothing, whatever the broker believes."""
        self._killed_ns[member] = at_ns
        self._end(member, self.owned(member), at_ns)

    def enter_broker_killed(self, at_ns: int) -> None:
        """Members go on with what they have fetched, and cannot commit it."""
        self._broker_killed_ns = at_ns

    def owned(self, member: str) -> set[int]:
        return {each.partition for each in self.tenures if each.member == member and each.until_ns is None}

    def given_up(self, member: str, *, from_ns: int, until_ns: int) -> list[int]:
        """The partitions that it stopped reading in this time, even if it got them back."""
        return [
            each.partition
            for each in self.tenures
            if each.member == member and each.until_ns is not None and from_ns <= each.until_ns <= until_ns
        ]

    def values(self) -> set[str]:
        return {read.value for read in self.reads}

    def faults(self) -> list[str]:
        """Each sentence is one way in which a partition had two owners, or a record was read by the wrong one."""
        return [*self._shared_partitions(), *self._reads_of_others_partitions(), *self._reads_without_need()]

    def _shared_partitions(self) -> Iterator[str]:
        for partition, tenures in _by_partition(self.tenures).items():
            for earlier, later in itertools.pairwise(sorted(tenures, key=lambda each: each.from_ns)):
                if earlier.until_ns is None or earlier.until_ns > later.from_ns:
                    yield f"{earlier.member} still had partition {partition} when {later.member} got it"

    def _reads_of_others_partitions(self) -> Iterator[str]:
        tenures = _by_partition(self.tenures)
        for read in self.reads:
            own = (each for each in tenures[read.partition] if each.member == read.member)
            if not any(each.covers(read.at_ns) for each in own):
                yield f"{read.member} read {read.partition}@{read.offset} and did not own the partition"

    def _reads_without_need(self) -> Iterator[str]:
        readers: dict[tuple[int, int], Read] = {}
        for read in sorted(self.reads, key=lambda each: each.at_ns):
            first = readers.setdefault((read.partition, read.offset), read)
            if first is read:
                continue
            again = f"{read.member} read {read.partition}@{read.offset} again after {first.member}"
            if any(each.covers(read) and each.at_ns < read.at_ns for each in self._commits):
                yield f"{again}, though it was committed"
            elif not self._died_before(first, read):
                yield f"{again}, who lived on"

    def _died_before(self, first: Read, second: Read) -> bool:
        """Whether something happened by which the commit of the first can have been lost."""
        deaths_ns = (self._killed_ns.get(first.member), self._broker_killed_ns)
        return any(each is not None and each < second.at_ns for each in deaths_ns)

    def _end(self, member: str, partitions: Iterable[int], at_ns: int) -> None:
        ended = set(partitions)
        for tenure in self.tenures:
            if tenure.member == member and tenure.partition in ended and tenure.until_ns is None:
                tenure.until_ns = at_ns


def _by_partition(tenures: list[Tenure]) -> dict[int, list[Tenure]]:
    found: dict[int, list[Tenure]] = defaultdict(list)
    for each in tenures:
        found[each.partition].append(each)
    return found
