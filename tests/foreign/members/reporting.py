"""The orders of a member program, its single argument in JSON, and the lines of JSON in which it reports."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_MS = 500
POLL_S = 0.2
NEW_PROTOCOL = "consumer-"  # and the name of the broker's assignor


@dataclass(frozen=True)
class Orders:
    bootstrap: str
    topic: str
    groups: dict[str, str]  # the strategy of each group

    @classmethod
    def given(cls) -> "Orders":
        return cls(**json.loads(sys.argv[1]))


class Reports:
    """What one member of a group tells. Times are of the one clock that all processes of a machine share."""

    def __init__(self, group: str) -> None:
        self._group = group

    def assigned(self, partitions: Iterable[int]) -> None:
        self._say("assigned", partitions=sorted(partitions))

    def revoked(self, partitions: Iterable[int]) -> None:
        self._say("revoked", partitions=sorted(partitions))

    def read(self, partition: int, offset: int, value: bytes) -> None:
        self._say("read", partition=partition, offset=offset, value=value.decode())

    def committed(self, offsets: dict[int, int]) -> None:
        self._say("committed", offsets=offsets)

    def trouble(self, error: object) -> None:
        self._say("trouble", error=str(error))

    def _say(self, what: str, **facts: Any) -> None:
        line = json.dumps({"group": self._group, "what": what, "at_ns": time.monotonic_ns(), **facts})
        os.write(sys.stdout.fileno(), f"{line}\n".encode())  # one write: lines of threads do not mix


def stopping_at_sigterm() -> threading.Event:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    return stopping
