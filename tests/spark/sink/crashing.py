"""The sink, with something that goes wrong once at a chosen point: `format("crashing")`, for tests only.

    option       what it says
    crash.at     the point: one of POINTS
    crash.batch  in which batch
    crash.once   a file that is made when it happens, and keeps it from happening again
    crash.abort  "no": Spark's request to abort is not heard, as if the driver had died too
    crash.pid    a process (the driver's JVM) that is killed as well
    crash.until  a file that the held or slow process waits for; without it, that of crash.once with .go appended

It replaces functions of the sink in the processes that Spark starts, and the sink has no code for it.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from penstock.spark.options import write_settings
from penstock.spark.sink import ledger, task, writers
from penstock.spark.sink.ledger import BrokerLedger
from penstock.spark.source import PenstockDataSource

POINTS = (
    "before the decision",
    "after the decision",
    "between the ends",
    "before Spark's own commit",
    "in a task",
    "after a task",
    "hold after the decision",
    "hold until the timeout",
    "slow in a task",
)
_WAIT_S = 300


class Crash:
    """What is to go wrong, as the options say."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.at = options.get("crash.at", "")
        self.batch = int(options.get("crash.batch", "-1"))
        self.once = options.get("crash.once", "")
        self.hears_abort = options.get("crash.abort", "yes") != "no"
        self.pid = int(options.get("crash.pid", "0"))
        self.until = options.get("crash.until", f"{self.once}.go")

    def is_at(self, point: str) -> bool:
        return self.at == point and not Path(self.once).exists()

    def happen(self) -> None:
        Path(self.once).touch()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def note(self, what: str) -> None:
        """For other processes to find."""
        self._noted(what).touch()

    def is_noted(self, what: str) -> bool:
        return self._noted(what).exists()

    def _noted(self, what: str) -> Path:
        return Path(f"{self.once}.{what}")

    def hold(self) -> None:
        """Say that the point is reached, and wait until others have done their part."""
        Path(self.once).touch()
        _until_there(Path(self.until))

    def wait(self) -> None:
        """Return when any process has reached the point."""
        _until_there(Path(self.once))


def _until_there(file: Path) -> None:
    deadline_s = time.monotonic() + _WAIT_S
    while not file.exists():
        assert time.monotonic() < deadline_s, f"no process made {file.name}"
        time.sleep(0.02)  # another process: nothing here could be told


class CrashingSource(PenstockDataSource):
    """As the real one; its stream writer crashes."""

    @classmethod
    def name(cls) -> str:
        return "crashing"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    def streamWriter(self, schema: Any, overwrite: bool) -> "CrashingSink":
        mine = {name: value for name, value in self.options.items() if name.startswith("crash.")}
        rest = {name: value for name, value in self.options.items() if name not in mine}
        return CrashingSink(schema, write_settings(rest), Crash(mine))


class CrashingSink(writers.StreamSink):
    def __init__(self, schema: Any, settings: Any, crash: Crash) -> None:
        super().__init__(schema, settings)
        self._crash = crash

    def write(self, iterator: Iterator[Any]) -> Any:
        crash = self._crash
        attempt = task.stream_attempt("")
        if attempt.batch != crash.batch:
            return super().write(iterator)
        if crash.at == "slow in a task":
            return self._write_slowly(iterator, attempt)

        def interrupted() -> Iterator[Any]:
            yield from iterator
            if crash.is_at("in a task"):
                crash.happen()

        done = super().write(interrupted())
        if crash.is_at("after a task"):
            crash.happen()
        return done

    def _write_slowly(self, iterator: Iterator[Any], attempt: task.Attempt) -> Any:
        """The first attempt of the first task stops half-way. Who comes before it has ended is its twin, and leaves a
        note; it may come early, where all is slow, and then waits until the other has stopped.
        """
        crash, is_first = self._crash, attempt.attempt == 0
        if attempt.partition != 0:
            return super().write(iterator)
        if not is_first:
            crash.wait()
            if not crash.is_noted("ended"):
                crash.note("twin")

        def interrupted() -> Iterator[Any]:
            (whole,) = iterator
            half = whole.num_rows // 2
            yield whole.slice(0, half)
            if is_first:
                crash.hold()
            yield whole.slice(half)

        try:
            return super().write(interrupted())
        finally:
            if is_first:
                crash.note("ended")

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        if batchId == self._crash.batch:
            _plant(self._crash)
        super().commit(messages, batchId)
        if batchId == self._crash.batch and self._crash.is_at("before Spark's own commit"):
            self._crash.happen()

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        if self._crash.hears_abort:
            super().abort(messages, batchId)


def _plant(crash: Crash) -> None:
    """Replace what this process does at the point."""
    write, end, look = BrokerLedger.write, ledger.end, BrokerLedger.open_transactions

    async def write_and_crash(self: BrokerLedger, *arguments: Any) -> None:
        if crash.is_at("before the decision"):
            crash.happen()
        await write(self, *arguments)
        if crash.is_at("after the decision"):
            crash.happen()
        if crash.is_at("hold after the decision"):
            crash.hold()

    async def end_and_crash(*arguments: Any, **more: Any) -> Any:
        if more["committed"] and crash.is_at("between the ends"):
            ended = await end(*arguments, **more)
            crash.happen()
            return ended
        return await end(*arguments, **more)

    async def look_and_wait(self: BrokerLedger, offered: Any) -> Any:
        found = await look(self, offered)
        if crash.is_at("hold until the timeout"):
            deadline_s = time.monotonic() + _WAIT_S
            while set(offered) & set(found):
                assert time.monotonic() < deadline_s, "no timeout strikes"
                found = await look(self, offered)
            Path(crash.once).touch()
        return found

    replaced: Any = BrokerLedger
    replaced.write = write_and_crash
    replaced.open_transactions = look_and_wait
    changed: Any = ledger
    changed.end = end_and_crash
