"""The clocks and the chance of programs that ask the standard library for them, while a simulation runs.

Only the thread that runs the simulation sees the replacements: others go on with the real ones.
"""

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from unittest.mock import patch

from penstock.sim.clock import Clock

T = TypeVar("T")


@contextlib.contextmanager
def replaced(clock: Callable[[], Clock], chance: random.Random) -> Iterator[None]:
    """Replace `time`, `random` and `os.urandom` by the simulation's; `clock` returns the running process's."""
    before = random.getstate()
    random.seed(chance.getrandbits(64))
    try:
        with contextlib.ExitStack() as stack:
            for name, replacement in _clocks(clock).items():
                real = getattr(time, name)
                stack.enter_context(patch.object(time, name, _for_this_thread(real, replacement)))
            stack.enter_context(
                patch.object(
                    os, "urandom", _for_this_thread(os.urandom, lambda count: chance.randbytes(count))
                )
            )
            stack.enter_context(_dated_by_time())
            yield
    finally:
        random.setstate(before)


@contextlib.contextmanager
def _dated_by_time() -> Iterator[None]:
    """Have aiokafka ask `time` for the dates of records: its compiled code asks the system, past all replacements."""
    accumulator = sys.modules.get("aiokafka.producer.message_accumulator")
    if accumulator is None:
        yield
        return
    append = accumulator.BatchBuilder.append

    def append_with_date(builder: Any, *, timestamp: int | None, **record: Any) -> Any:
        return append(
            builder, timestamp=int(time.time() * 1000) if timestamp is None else timestamp, **record
        )

    with patch.object(accumulator.BatchBuilder, "append", append_with_date):
        yield


def _clocks(clock: Callable[[], Clock]) -> dict[str, Callable[[], Any]]:
    return {
        "time": lambda: clock().now_ms() / 1000,
        "time_ns": lambda: clock().now_ms() * 1_000_000,
        "monotonic": lambda: clock().time(),
        "monotonic_ns": lambda: int(clock().time() * 1e9),
        "perf_counter": lambda: clock().time(),
        "perf_counter_ns": lambda: int(clock().time() * 1e9),
    }


def _for_this_thread(real: Callable[..., T], replacement: Callable[..., T]) -> Callable[..., T]:
    here = threading.get_ident()

    def answer(*arguments: Any) -> T:
        return (replacement if threading.get_ident() == here else real)(*arguments)

    return answer
