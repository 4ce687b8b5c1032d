"""Exactly once: each message below the committed offset of a group of copiers has exactly one committed copy."""

from collections.abc import Iterator

from penstock.base.ids import TopicPartition
from penstock.sim.checkers.anomalies import Anomaly, AnomalyKind
from penstock.sim.checkers.groups import log_of
from penstock.sim.checkers.history import History


def find_miscopied(history: History) -> Iterator[Anomaly]:
    for group in dict.fromkeys(copy.group for copy in history.copies):
        yield from _miscopied(history, group)


def _miscopied(history: History, group: str) -> Iterator[Anomaly]:
    sources = {copy.copied: copy.source for copy in history.copies if copy.group == group}
    seen = _committed_messages(history)
    copies: dict[int, dict[int, None]] = {}  # of each source, those that were seen
    for number in seen:
        if number in sources:
            copies.setdefault(sources[number], {})[number] = None
    committed = {
        read.partition: read.offset for read in history.committed_reads if read.group == group
    }  # the last one of each is from when all was over
    for number, (partition, offset) in seen.items():
        if number in copies and len(copies[number]) > 1:
            what = f"message {number} at offset {offset} has the copies {', '.join(map(str, copies[number]))}"
            yield Anomaly(AnomalyKind.COPIED_TWICE, log_of(group, partition), what)
        elif number not in copies and offset < committed.get(partition, 0):
            what = f"message {number} at offset {offset} has no copy, with {committed[partition]} committed"
            yield Anomaly(AnomalyKind.NOT_COPIED, log_of(group, partition), what)


def _committed_messages(history: History) -> dict[int, tuple[TopicPartition, int]]:
    """Every message that a reader of committed data saw, and where."""
    return {
        seen.message.number: (TopicPartition(poll.log.topic, poll.log.partition), seen.offset)
        for poll in history.polls
        if poll.committed_only
        for seen in poll.seen
    }
