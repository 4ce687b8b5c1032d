"""From offsets to tasks: how far a micro-batch goes, what is lost, who reads what, and how much at a time. Pure."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.base.ids import TopicPartition
from penstock.spark.positions import Positions

ANSWER_BYTES: Final = 2 << 20


class OffsetRange(NamedTuple):
    """What one task reads: from an offset up to another, not included."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Lost(NamedTuple):
    """Offsets that should have been read and do not exist any more."""

    partition: TopicPartition
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        return (
            f"offsets {self.start} to {self.end - 1} of topic {self.partition.topic}, "
            f"partition {self.partition.partition}: {self.reason}"
        )


def limited(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], most: int
) -> Positions:
    """Where to stop so that about `most` offsets are read: each partition gets its share of the backlog."""
    backlog = {each: max(0, latest[each] - start.get(each, 0)) for each in latest}
    total = sum(backlog.values())
    if total <= most:
        return dict(latest)
    ends = {}
    for each, size in backlog.items():
        share = size * most // total
        # Who has something to read reads something, else a small partition beside a large one waits for ever.
        ends[each] = start.get(each, 0) + (min(size, max(1, share)) if size else 0)
    return {each: max(ends[each], min(start.get(each, 0), latest[each])) for each in latest}


def ranges(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """What lies between, in the order of partitions; partitions that are not in `start` begin at 0."""
    found = [OffsetRange(each, start.get(each, 0), end[each]) for each in sorted(end)]
    return [each for each in found if each.size > 0]


def below_start(
    wanted: Iterable[OffsetRange], log_starts: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[Lost]]:
    """What is left of the ranges when logs begin where they do now, and what is lost."""
    left, lost = [], []
    for each in wanted:
        log_start = log_starts.get(each.partition, 0)
        if log_start > each.start:
            lost.append(
                Lost(each.partition, each.start, min(log_start, each.end), "deleted (retention, or by hand)")
            )
        if log_start < each.end:
            left.append(each._replace(start=max(each.start, log_start)))
    return left, lost


def split(wanted: Sequence[OffsetRange], *, tasks_min: int, size_max: int) -> list[OffsetRange]:
    """The same ranges in pieces: at least so many (where there are as many offsets), none larger than so much."""
    pieces = [
        piece for each in wanted for piece in _pieces(each, -(-each.size // size_max) if size_max else 1)
    ]
    missing = tasks_min - len(pieces)
    if missing <= 0:
        return pieces
    total = sum(each.size for each in pieces)
    counts = [max(1, each.size * tasks_min // total) for each in pieces]
    # Rounding down leaves some out: the largest pieces give one more each.
    while sum(counts) < min(tasks_min, total):
        largest = max(range(len(pieces)), key=lambda index: pieces[index].size / counts[index])
        counts[largest] += 1
    return [piece for each, count in zip(pieces, counts, strict=True) for piece in _pieces(each, count)]


def gathered(pieces: Sequence[OffsetRange], *, size_min: int) -> list[tuple[OffsetRange, ...]]:
    """The pieces by task: small ones share a task, so that none has much less than so many offsets.

    A task costs some milliseconds whatever it reads, more than a few thousand records do.
    """
    if not size_min:
        return [(piece,) for piece in pieces]
    tasks: list[tuple[OffsetRange, ...]] = []
    sharing: list[OffsetRange] = []
    for piece in pieces:
        sharing.append(piece)
        if sum(each.size for each in sharing) >= size_min:
            tasks.append(tuple(sharing))
            sharing = []
    if sharing:
        tasks.append(tuple(sharing))
    return tasks


def answer_bytes_min(*, bytes_read: int, offsets_read: int, offsets_left: int, bytes_max: int) -> int:
    """How much the next answer about a range should have at least; 1 is anything.

    Each answer has its price, and a broker keeps them short unless more is asked for. Towards the end of a range
    it would wait for what never comes, so how much is left is guessed from how large the records were so far.
    """
    if offsets_read <= 0 or bytes_max < 2 * ANSWER_BYTES:
        return 1
    return ANSWER_BYTES if bytes_read * offsets_left // offsets_read >= 2 * ANSWER_BYTES else 1


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = max(1, min(count, whole.size))
    ends = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in itertools.pairwise(ends)]
