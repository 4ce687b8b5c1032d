"""Runs the blocks of pages, in a directory of its own and beside a broker where one is given."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peers.penstock import SOURCE, PenstockProcess
from peers.ports import free_ports
from tests.documents.addresses import environment
from tests.documents.blocks import COMMANDS, PAGES, PYTHON, ROOT, chosen
from tests.documents.shell import Shell

PYTHON_TIMEOUT_S = 240


def pages_with(kind: str, *, spark: bool) -> list[Any]:
    """Pages with blocks of this kind that run, with Spark or without; marked with what they need."""
    found = []
    for page in PAGES:
        blocks = chosen(page, kind, spark=spark)
        if blocks:
            needs_java = any("java" in block.given for block in blocks)
            found.append(pytest.param(page, marks=[pytest.mark.needs("java")] if needs_java else [], id=page))
    return found


def run_python(pages: list[str], folder: Path, *, spark: bool) -> None:
    blocks = [block for page in pages for block in chosen(page, PYTHON, spark=spark)]
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        if any("broker" in block.given for block in blocks):
            stack.enter_context(PenstockProcess(listen=f"127.0.0.1:{port}"))
        path = os.pathsep.join([str(SOURCE), str(ROOT)])
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.documents.python_session",
                *(["--spark"] if spark else []),
                str(port),
                *pages,
            ],
            cwd=folder,
            env={**os.environ, **environment(port), "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=PYTHON_TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]


def run_commands(page: str, folder: Path, *, spark: bool) -> None:
    """In a directory that has the page's own neighbours if it is one of the examples'."""
    here = folder / "here"
    if page.startswith("examples/"):
        shutil.copytree(ROOT / "examples", here / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    here.mkdir(exist_ok=True)
    (port, *_) = free_ports(4)
    blocks = chosen(page, COMMANDS, spark=spark)
    with contextlib.ExitStack() as stack:
        if any("broker" in block.given for block in blocks):
            stack.enter_context(PenstockProcess(listen=f"127.0.0.1:{port}"))
        shell = stack.enter_context(Shell(here, port=port))
        for block in blocks:
            shell.run(block)
