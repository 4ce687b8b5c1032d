"""A history that several threads write to, and what else is noted beside it."""

import itertools
import threading
import time
from bisect import bisect_left
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
        self._times_ms: list[int] = []  # of ticks; the first is 1
        self._numbers = itertools.count()
        self._transactions = itertools.count()

    def tick(self) -> int:
        with self._lock:
            self._times_ms.append(time.time_ns() // 1_000_000)
            return self.history.tick()

    def tick_before(self, time_ms: int) -> int:
        """A tick that had passed when another process's clock, which is this machine's, showed `time_ms`."""
        with self._lock:
            return bisect_left(self._times_ms, time_ms)

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
