"""A history that several threads write to, and what else is noted beside it."""

import itertools
import threading
from typing import NamedTuple

from penstock.sim.checkers import History, LogName

IDEMPOTENT, PLAIN, TRANSACTIONAL, JAVA = "idempotent", "plain", "transactional", "java"
_OF_JAVA_FROM = 10**9  # its numbers are its own


class Span(NamedTuple):
    """From one moment to another, in ticks of the history."""

    began: int
    ended: int


class Recorder:
    """Numbers are unique, ticks are in the order of time: both are given out one by one."""

    def __init__(self) -> None:
        self.history = History()
        self.too_few: list[Span] = []  # when too few replicas lived for anything to be acknowledged
        self.complaints: list[str] = []  # of clients that met what they should not
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._transactions = itertools.count()

    def tick(self) -> int:
        with self._lock:
            return self.history.tick()

    def number(self) -> int:
        return next(self._numbers)

    def transaction(self) -> int:
        return next(self._transactions)

    def complain(self, who: str, what: object) -> None:
        self.complaints.append(f"{who}: {what}")


def log_of(topic: str, partition: int) -> LogName:
    return LogName(topic, topic, partition)


def number_in(topic: str, value: bytes | str) -> int:
    """The number that a record of this topic carries."""
    return int(value) + (_OF_JAVA_FROM if topic == JAVA else 0)
