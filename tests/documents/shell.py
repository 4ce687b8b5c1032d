"""Runs a page's commands as a reader would type them: one line after the other, in one directory.

A line has to end with 0. Those that run until Ctrl-C (`UNTIL_CTRL_C`) have to say that they are ready; a server then
stays for the rest of the page, anything else is interrupted, and all of them have to end as Ctrl-C has them.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from peers.penstock import SOURCE
from peers.process import WatchedProcess
from tests.documents.addresses import at_port, environment
from tests.documents.blocks import Block

LINE_TIMEOUT_S = 300  # for a machine that does much else
INTERRUPTED = 128 + signal.SIGINT


class Endless(NamedTuple):
    command: re.Pattern[str]
    ready: re.Pattern[str]
    stays: bool


UNTIL_CTRL_C = [
    Endless(re.compile(r"^penstock serve\b"), re.compile("ready on"), stays=True),
    Endless(re.compile(r"^penstock cluster up\b"), re.compile(r"\d brokers, controller \d"), stays=True),
    Endless(re.compile(r"^penstock consume .*--follow\b"), re.compile("."), stays=False),
    Endless(re.compile(r"pipeline run\b(?!.*--once)"), re.compile(r"batch [\d,]+ in "), stays=False),
]


class Shell:
    def __init__(self, folder: Path, *, port: int) -> None:
        self._folder = folder
        self._here = folder
        self._port = port
        self._staying: list[tuple[Block, str, WatchedProcess]] = []
        self._environment = self._make_environment(folder.parent / "bin")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        complaints = [self._interrupt(*each) for each in reversed(self._staying)]
        assert kind or not any(complaints), "".join(complaints)

    def run(self, block: Block) -> None:
        self._here = self._folder
        for line in block.text.splitlines():
            command = at_port(without_comment(line), self._port)
            if command.startswith("cd ") and "&" not in command:
                self._here = self._here / command.removeprefix("cd ")
            elif command:
                self._run_line(block, command)

    def _run_line(self, block: Block, command: str) -> None:
        *first, last = command.split(" && ")
        background = last.endswith(" &")
        endless = next((each for each in UNTIL_CTRL_C if each.command.search(last.removesuffix(" &"))), None)
        if endless is None and not background:
            self._finish(block, command)
            return
        whole = " && ".join([*first, f"exec {last.removesuffix(' &')}"])
        process = WatchedProcess(
            ["bash", "-c", whole],
            environment=self._environment,
            directory=self._here,
        )
        if endless is None or endless.stays:
            self._staying.append((block, command, process))
        if endless is not None:
            process.wait_for_line(endless.ready.search, timeout_s=LINE_TIMEOUT_S)
            if not endless.stays:
                complaint = self._interrupt(block, command, process)
                assert not complaint, complaint

    def _finish(self, block: Block, command: str) -> None:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._here,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LINE_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (
            f"{block.place}: `{command}` ended with {done.returncode}:\n{done.stdout}"
        )

    def _interrupt(self, block: Block, command: str, process: WatchedProcess) -> str:
        """Ctrl-C; what was wrong with its end, if anything."""
        ended = process.exit_code
        if ended is None:
            os.kill(process.pid, signal.SIGINT)
        try:
            code = process.wait(timeout_s=60)
        finally:
            process.kill()
        if ended is None and code in (0, INTERRUPTED):
            return ""
        why = "by itself" if ended is not None else "after Ctrl-C"
        return f"{block.place}: `{command}` ended {why} with {code}:\n{process.output}"

    def _make_environment(self, programs: Path) -> dict[str, str]:
        """With `penstock` and `python` on the path, whether they are installed there or not."""
        programs.mkdir()
        for name, module in (("penstock", "-m penstock "), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n')
            program.chmod(0o755)
        return {
            **os.environ,
            **environment(self._port),
            "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
            "PYTHONPATH": str(SOURCE),
            "PYTHONUNBUFFERED": "1",
        }


def without_comment(line: str) -> str:
    """What is before ` # …`; a `#` in quotes stays."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1] == " "):
            return line[:place].strip()
    return line.strip()
