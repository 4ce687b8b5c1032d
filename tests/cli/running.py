"""Calls the command line: in this process for most tests, in one of its own where that is the point."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.cli.main import main

SOURCE = Path(__file__).resolve().parents[2] / "src"


class Outcome(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Penstock = Callable[..., Outcome]


def in_process(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> Penstock:
    """A function that runs a command line: `penstock("topic", "list", stdin=b"...")`."""

    def penstock(*words: object, stdin: bytes = b"") -> Outcome:
        given = folder / "stdin"
        given.write_bytes(stdin)
        capsys.readouterr()
        with given.open() as file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return penstock


def command(*words: object) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "penstock", *map(str, words)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


class Started(subprocess.Popen[bytes]):
    """A process that does not outlive a test that fails: the end of its block would wait for it without end."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


def start(words: Sequence[object], **more: Any) -> Started:
    """The command in a process of its own, its output in pipes. It does not ignore SIGHUP, even under nohup."""
    return Started(
        command(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=_restore_sighup,
        **more,
    )


def _restore_sighup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
