"""A child process that is watched: its output kept, its end bounded, nothing but itself ever signalled."""

import collections
import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class ProcessEndedError(Exception):
    """The process ended, or stayed silent, where it was expected to get ready."""


class WatchedProcess:
    """Runs a command in the background and keeps its last lines of output."""

    LINES_KEPT = 2000

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=self.LINES_KEPT)
        self._news = threading.Condition()
        self._silent = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=None if environment is None else dict(environment),
            cwd=directory,
        )
        self._reader = threading.Thread(target=self._read, name=f"output of {self.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    @property
    def output(self) -> str:
        with self._news:
            return "".join(self._lines)

    def wait_for_line(self, wanted: Callable[[str], object], *, timeout_s: float) -> str:
        """The first line kept for which `wanted` answers something true."""
        deadline_s = time.monotonic() + timeout_s
        with self._news:
            while True:
                for line in self._lines:
                    if wanted(line):
                        return line
                if self._silent:
                    raise ProcessEndedError(f"the process ended before it was ready:\n{''.join(self._lines)}")
                if not self._news.wait(deadline_s - time.monotonic()):
                    raise ProcessEndedError(f"not ready after {timeout_s} s:\n{''.join(self._lines)}")

    def wait(self, *, timeout_s: float) -> int:
        code = self._process.wait(timeout_s)
        self._reader.join(timeout_s)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def stop(self, *, timeout_s: float = 30) -> int:
        """Asks with SIGTERM, kills when that takes too long; the exit code tells which."""
        self._signal(signal.SIGTERM)
        self.resume()  # a paused process does not handle signals
        try:
            return self.wait(timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        self._signal(signal.SIGKILL)
        return self.wait(timeout_s=30)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()
