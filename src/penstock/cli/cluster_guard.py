"""The parent of the processes of `penstock cluster up`; stops them when `cluster up` ends, even by SIGKILL.

`python -m penstock.cli.cluster_guard` reads commands from stdin, one JSON object per line, and writes what happened to
stdout. When its stdin is closed, by `cluster up` or by its death, it stops all processes in reverse order and exits.
SIGTERM makes it kill all of them at once.

    in   {"name": "broker 1", "command": ["…"], "log": "…/broker-1.log"}
    out  {"name": "broker 1", "pid": 4711}
         {"name": "broker 1", "failed": "no such file or directory"}      (instead)
         {"name": "broker 1", "ended": 0}

`Guard` is the side of `cluster up`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

from penstock.base.errors import UserError

_STOP_TIMEOUT_S: Final = 40  # longer than penstock.shutdown.timeout.ms
_START_TIMEOUT_S: Final = 30


class Guard:
    """Starts the guard process, and through it all others."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.cluster_guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for `cluster up`, which stops the processes in order
        )
        self._news = threading.Condition()
        self._told: dict[str, dict[str, Any]] = {}
        threading.Thread(target=self._read, name="events of the cluster's processes", daemon=True).start()

    def start(self, name: str, command: Sequence[str], log: Path) -> int:
        """Start a process with its output in the file `log`; returns its pid."""
        assert self._process.stdin is not None
        self._process.stdin.write(
            json.dumps({"name": name, "command": list(command), "log": str(log)}) + "\n"
        )
        self._process.stdin.flush()
        with self._news:
            if not self._news.wait_for(lambda: name in self._told, _START_TIMEOUT_S):
                raise UserError(
                    f"{name} could not be started: the process that watches over the cluster has ended"
                )
            told = dict(self._told[name])
        if "failed" in told:
            raise UserError(f"{name} could not be started: {told['failed']}")
        pid: int = told["pid"]
        return pid

    def exit_code(self, name: str) -> int | None:
        """The process's exit code; None while it runs."""
        with self._news:
            code: int | None = self._told.get(name, {}).get("ended")
            return code

    def stop(self) -> None:
        """Stop all processes; returns when they have ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def kill(self) -> None:
        """Kill all processes."""
        self._process.terminate()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._news:
                self._told.setdefault(told["name"], {}).update(told)
                self._news.notify_all()


class _GuardProcess:
    """The guard process itself."""

    def __init__(self, orders: IO[str], news: IO[str]) -> None:
        self._orders = orders
        self._news = news
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        for line in self._orders:
            self._start(json.loads(line))
        for process in reversed(self._processes):
            _stop(process)

    def kill_all(self) -> None:
        for process in self._processes:
            process.kill()

    def _start(self, order: dict[str, Any]) -> None:
        name = order["name"]
        try:
            with Path(order["log"]).open("ab") as log:
                process = subprocess.Popen(
                    order["command"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            self._tell({"name": name, "failed": (error.strerror or str(error)).lower()})
            return
        self._processes.append(process)
        self._tell({"name": name, "pid": process.pid})
        threading.Thread(target=self._wait, args=(name, process), daemon=True).start()

    def _wait(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        self._tell({"name": name, "ended": process.wait()})

    def _tell(self, news: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):  # the parent may have died
            self._news.write(json.dumps(news) + "\n")
            self._news.flush()


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    guarding = _GuardProcess(sys.stdin, sys.stdout)

    def end(_number: int, _frame: FrameType | None) -> None:
        guarding.kill_all()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    guarding.run()
    os._exit(0)  # without closing stdout, which may have no reader


if __name__ == "__main__":
    main()
