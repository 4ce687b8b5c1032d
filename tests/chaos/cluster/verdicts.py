"""What is wrong with a run, in words: the simulation's checkers over the history, and what they leave out."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from penstock.base.ids import TopicPartition
from penstock.sim.checkers import History, OperationOutcome, check, check_coordination
from penstock.sim.checkers.history import LogName
from tests.chaos.cluster.recording import Recorder

Where = tuple[str, int]  # topic and partition
TRACE_LINES = 30


def anomalies(recorder: Recorder) -> Iterator[str]:
    """All but those of the files."""
    history = recorder.history
    yield from map(str, check(history))
    yield from map(str, check_coordination(history))
    yield from acknowledged_by_too_few(recorder)
    yield from offsets_gone_back(history)


def acknowledged_by_too_few(recorder: Recorder) -> Iterator[str]:
    for span in recorder.too_few:
        for send in recorder.history.sends:
            if send.outcome is OperationOutcome.OK and span.began < send.began and send.ended < span.ended:
                yield f"{send.actor} was told {send.base_offset} of {send.logs[-1]} while two brokers were dead"


def offsets_gone_back(history: History) -> Iterator[str]:
    """Members go on from where their group is: what is said to be committed never becomes less.

    Not even by a commit that a client gave up and a network delivers late: who was cut off until another broker took
    its place serves no request from before.
    """
    told: dict[tuple[str, TopicPartition], list[tuple[int, int, int]]] = defaultdict(list)
    for commit in history.commits:
        if commit.outcome is OperationOutcome.OK:
            told[commit.group, commit.partition].append((commit.ended, commit.began, commit.offset))
    for read in history.committed_reads:
        told[read.group, read.partition].append((read.ended, read.began, read.offset))
    for (group, partition), events in told.items():
        by_end = sorted(events)
        highest, at = -1, 0
        for _, began, offset in sorted(events, key=lambda event: event[1]):
            while by_end[at][0] < began:
                highest = max(highest, by_end[at][2])
                at += 1
            if offset < highest:
                yield f"group {group} had {highest} committed in {partition}, and later {offset}"
                highest = offset  # told once; from here on it grows again


def out_of_order(history: History, final: Mapping[Where, Sequence[int]]) -> Iterator[str]:
    """An idempotent producer's numbers grow: so they lie in its partitions.

    Others promise no order when a leader changes: what was under way to the old one is sent again, after what came
    later.
    """
    actors = {
        message.number: send.actor for send in history.sends if send.idempotent for message in send.messages
    }
    for where, numbers in final.items():
        by_actor: dict[str, list[int]] = defaultdict(list)
        for number in numbers:
            if number in actors:
                by_actor[actors[number]].append(number)
        for actor, sent in by_actor.items():
            turned = [(one, other) for one, other in pairwise(sent) if one > other]
            if turned:
                yield f"{where}: {actor} sent {turned[0][1]} before {turned[0][0]}, and they lie the other way"


def not_read_by_groups(
    seen: Mapping[str, set[tuple[str, int, int]]],
    topics: Mapping[str, Sequence[str]],
    final: Mapping[Where, Sequence[int]],
) -> Iterator[str]:
    for group, found in seen.items():
        for (topic, partition), numbers in final.items():
            missed = [number for number in numbers if (topic, partition, number) not in found]
            if topic in topics[group] and missed:
                yield f"group {group} never saw {len(missed)} of {topic}-{partition}, the first is {missed[0]}"


def unlike_copies(directories: Sequence[Path], logs: Sequence[LogName]) -> Iterator[str]:
    """All replicas of a partition are the same, byte for byte."""
    for log in logs:
        copies = [_bytes_of(directory / f"{log.topic}-{log.partition}") for directory in directories]
        if len(set(copies)) > 1:
            first = next(
                (at for at, each in enumerate(zip(*copies, strict=False)) if len(set(each)) > 1),
                min(map(len, copies)),
            )
            sizes = ", ".join(str(len(copy)) for copy in copies)
            yield f"the replicas of {log} differ from byte {first} on; they have {sizes} bytes"


def _bytes_of(partition: Path) -> bytes:
    """Segments may begin at different offsets; together they are the log."""
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))


def own_bugs(said: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Tracebacks: nothing that was done to the brokers is a reason for one."""
    for node_id, output in said:
        lines = output.splitlines()
        for at, line in enumerate(lines):
            if line.startswith("Traceback (most recent call last)"):
                yield "\n".join([f"broker {node_id} stumbled:", *lines[max(0, at - 1) : at + TRACE_LINES]])
