"""Starts, ends and kills member programs, and keeps the ledger of each of their groups."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.foreign.members.ledger import Ledger

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 90


def python_program(module: str) -> list[str]:
    return [sys.executable, "-m", f"tests.foreign.members.{module}"]


class Crew:
    """Programs of one client, each a member of one group for each strategy, all reading one topic."""

    def __init__(
        self, client: str, command: Sequence[str], strategies: Sequence[str], *, bootstrap: str, topic: str
    ) -> None:
        self.groups = {strategy: f"{client}-{strategy}-{uuid.uuid4().hex[:8]}" for strategy in strategies}
        self.ledgers = {strategy: Ledger() for strategy in strategies}
        self._strategies = {group: strategy for strategy, group in self.groups.items()}
        self._command = list(command)
        self._orders = json.dumps({"bootstrap": bootstrap, "topic": topic, "groups": self._strategies})
        self._members: dict[str, subprocess.Popen[str]] = {}
        self._listeners: list[threading.Thread] = []
        self._said: deque[str] = deque(maxlen=200)
        self._news = threading.Condition()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._members):
            self.kill(name)
        for listener in self._listeners:
            listener.join()

    @property
    def members(self) -> list[str]:
        return list(self._members)

    def start(self, name: str, command: Sequence[str] | None = None) -> None:
        """Lets a member join, who may speak through another client than the crew's."""
        program = subprocess.Popen(
            [*(command or self._command), self._orders],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=ROOT,
        )
        self._members[name] = program
        self._listeners.append(threading.Thread(target=self._listen, args=(name, program)))
        self._listeners[-1].start()

    def kill(self, name: str) -> None:
        """SIGKILL; the moment entered is one at which it is dead for certain."""
        program = self._members.pop(name)
        program.kill()
        program.wait()
        killed_ns = time.monotonic_ns()
        with self._news:
            for ledger in self.ledgers.values():
                ledger.enter_killed(name, killed_ns)

    def enter_broker_killed(self, at_ns: int) -> None:
        with self._news:
            for ledger in self.ledgers.values():
                ledger.enter_broker_killed(at_ns)

    def ask_to_leave(self, name: str) -> None:
        self._members[name].terminate()

    def wait_until_left(self, name: str) -> None:
        """Waits for the program to end by itself, which it must without an error."""
        code = self._members[name].wait(PATIENCE_S)
        assert code == 0, self._story(f"{name} ended with {code}")
        del self._members[name]

    def wait_until(self, happened: Callable[[Ledger], bool], what: str) -> None:
        """Waits until it has happened in all groups."""
        deadline_s = time.monotonic() + PATIENCE_S
        with self._news:
            while waiting := [each for each, ledger in self.ledgers.items() if not happened(ledger)]:
                left_s = deadline_s - time.monotonic()
                assert self._news.wait(left_s), self._story(f"still waiting for {what} in {waiting}")

    def wait_until_each_owns(self, count: int) -> None:
        members = self.members
        self.wait_until(
            lambda ledger: all(len(ledger.owned(member)) == count for member in members),
            f"{count} partitions for each of {members}",
        )

    def wait_until_read(self, values: set[str]) -> None:
        self.wait_until(lambda ledger: values <= ledger.values(), f"{len(values)} records to be read")

    def _listen(self, name: str, program: subprocess.Popen[str]) -> None:
        assert program.stdout is not None
        with program.stdout:
            for line in program.stdout:
                self._hear(name, line)

    def _hear(self, name: str, line: str) -> None:
        with self._news:
            if line.startswith("{"):
                event = json.loads(line)
                self.ledgers[self._strategies[event["group"]]].enter(name, event)
                self._news.notify_all()
            else:
                self._said.append(f"{name}: {line}")

    def _story(self, headline: str) -> str:
        return "\n".join([headline, *self._states(), "".join(self._said)])

    def _states(self) -> Iterator[str]:
        for strategy, ledger in self.ledgers.items():
            owned = {name: sorted(ledger.owned(name)) for name in self._members}
            yield f"{strategy}: {owned}, {len(ledger.values())} records read, troubles {ledger.troubles[-5:]}"
