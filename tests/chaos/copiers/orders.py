"""What a copier is to do: its one argument, as JSON."""

import json
import random
import signal
import sys
import threading
from dataclasses import asdict, dataclass

SESSION_TIMEOUT_MS = 6_000
TRANSACTION_TIMEOUT_MS = 10_000
RECORDS_MAX = 20  # of one transaction: many small ones, so that each kill meets another moment
WORK_S_MAX = 0.05


def work_s() -> float:
    """How long to work now. Workers do so twice in a transaction, so that most kills meet one that is open."""
    return random.uniform(0, WORK_S_MAX)


@dataclass(frozen=True)
class Orders:
    bootstrap: str
    source: str
    sink: str
    group: str
    name: str  # the worker's: its transactional id, and its place in the group, survive it
    partitions: tuple[int, ...]  # of the source, for those who do not let the group say

    def as_argument(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def given(cls) -> "Orders":
        return cls(**json.loads(sys.argv[1]))


def stopping_at_sigterm() -> threading.Event:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    return stopping
