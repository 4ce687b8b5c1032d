"""What all actors of a run share: the history, the numbers of messages, counts of how things went."""

from collections import Counter

from penstock.sim.checkers import History, LogName
from penstock.sim.workload.known_topics import KnownTopics


class Journal:
    """One run's notes."""

    def __init__(self) -> None:
        self.history = History()
        self.counts: Counter[str] = Counter()  # "send ok", "read NOT_LEADER_OR_FOLLOWER", ...
        self.unreadable: dict[LogName, str] = {}  # logs with bytes that nobody could read, and why
        self.topics = KnownTopics()
        self._next_number = 0

    def number(self) -> int:
        self._next_number += 1
        return self._next_number

    def count(self, operation: str, outcome: str) -> None:
        self.counts[f"{operation} {outcome}"] += 1
