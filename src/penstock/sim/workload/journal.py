"""What all actors of a run share: the history, the numbers of messages, counts of how things went."""

from collections import Counter

from penstock.sim.checkers import History, LogName, SentMessage
from penstock.sim.entries import SendBatch
from penstock.sim.workload.known_topics import KnownTopics


class Journal:
    """One run's notes."""

    def __init__(self) -> None:
        self.history = History()
        self.counts: Counter[str] = Counter()  # "send ok", "read NOT_LEADER_OR_FOLLOWER", ...
        self.unreadable: dict[LogName, str] = {}  # logs with unreadable bytes, and the errors
        self.out_of_order: dict[LogName, str] = {}  # logs that did not know what a producer had written
        self.topics = KnownTopics()
        self._next_number = 0

    def messages_of(self, entry: SendBatch) -> tuple[SentMessage, ...]:
        """The messages of a batch, each with a number of its own."""
        return tuple(
            SentMessage(self.number(), key or None, index in entry.tombstones)
            for index, key in enumerate(entry.keys)
        )

    def number(self) -> int:
        self._next_number += 1
        return self._next_number

    def count(self, operation: str, outcome: str) -> None:
        self.counts[f"{operation} {outcome}"] += 1
