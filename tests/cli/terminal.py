"""A command that believes a person watches: its output is a terminal of a chosen size, and Ctrl-C reaches whatever it
has started in its process group, as on a real one."""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import psutil


class Terminal:
    """Runs the command from the beginning of the `with` block; kills it at the end if it still runs."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], columns: int, lines: int
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=dict(environment), start_new_session=True
        )
        os.close(slave)
        self._output = ""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(30)
        os.close(self._master)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything that was written, escapes included."""
        with self._news:
            return self._output

    def wait_for(self, text: str, *, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        with self._news:
            while text not in self._output:
                left_s = deadline_s - time.monotonic()
                assert left_s > 0, f"no {text!r} in {self._output!r}"
                assert self._process.poll() is None, f"it ended: {self._output!r}"
                self._news.wait(min(left_s, 1))

    def started(self) -> list[psutil.Process]:
        """The processes that the command has started, and those that these have."""
        return psutil.Process(self.pid).children(recursive=True)

    def type(self, text: str) -> None:
        """What a person types; a line ends with a line feed."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self.pid, signal.SIGINT)

    def wait(self, *, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # raised when the other end of the terminal is closed
            while data := os.read(self._master, 65_536):
                with self._news:
                    self._output += data.decode("utf-8", "replace")
                    self._news.notify_all()
