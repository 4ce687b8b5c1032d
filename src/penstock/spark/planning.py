"""From offsets to tasks: the end of a micro-batch, lost offsets, the ranges of tasks, the size of fetches. Pure."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.base.ids import TopicPartition
from penstock.spark.positions import Positions

ANSWER_BYTES: Final = 2 << 20


class OffsetRange(NamedTuple):
    """A range of offsets of one partition; the end is exclusive."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Lost(NamedTuple):
    """Offsets to read that do not exist any more."""

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
    """The end offsets for about `most` offsets in total, divided among partitions by their lag."""
    backlog = {each: max(0, latest[each] - start.get(each, 0)) for each in latest}
    total = sum(backlog.values())
    if total <= most:
        return dict(latest)
    ends = {}
    for each, size in backlog.items():
        share = size * most // total
        # A partition with lag reads at least one offset, else a small one beside a large one would starve.
        ends[each] = start.get(each, 0) + (min(size, max(1, share)) if size else 0)
    return {each: max(ends[each], min(start.get(each, 0), latest[each])) for each in latest}


def ranges(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The ranges between start and end offsets, sorted by partition; partitions that are not in `start` begin at 0."""
    found = [OffsetRange(each, start.get(each, 0), end[each]) for each in sorted(end)]
    return [each for each in found if each.size > 0]


def below_start(
    wanted: Iterable[OffsetRange], log_starts: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[Lost]]:
    """The ranges from the present log start offsets on, and the offsets that are lost."""
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
    """The ranges split into at least this many pieces (if there are as many offsets), none larger than the limit."""
    pieces = [
        piece for each in wanted for piece in _pieces(each, -(-each.size // size_max) if size_max else 1)
    ]
    missing = tasks_min - len(pieces)
    if missing <= 0:
        return pieces
    total = sum(each.size for each in pieces)
    counts = [max(1, each.size * tasks_min // total) for each in pieces]
    # Rounding down leaves some pieces out: the largest ranges get one more each.
    while sum(counts) < min(tasks_min, total):
        largest = max(range(len(pieces)), key=lambda index: pieces[index].size / counts[index])
        counts[largest] += 1
    return [piece for each, count in zip(pieces, counts, strict=True) for piece in _pieces(each, count)]


def gathered(pieces: Sequence[OffsetRange], *, size_min: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges by task: small ones share a task, so that none has much less than this many offsets.

    The overhead of a task is some milliseconds, more than reading a few thousand records takes.
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
    """The min_bytes of the next fetch of a range; 1: any number of bytes.

    Each response has an overhead, and a broker keeps responses short unless min_bytes is larger. Near the end of a
    range the broker would wait for bytes that never come, so the bytes left are estimated from the records so far.
    """
    if offsets_read <= 0 or bytes_max < 2 * ANSWER_BYTES:
        return 1
    return ANSWER_BYTES if bytes_read * offsets_left // offsets_read >= 2 * ANSWER_BYTES else 1


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = max(1, min(count, whole.size))
    ends = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in itertools.pairwise(ends)]
