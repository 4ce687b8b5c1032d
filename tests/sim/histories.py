"""One seed is one history, in whichever process: what tests of all families ask for."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.sim.plan import Plan

_SOURCE = Path(__file__).parents[2] / "src"
_HASH_OF = (
    "import sys; from {module} import {make}; from penstock.sim.run import run_plan; "
    "print(run_plan({make}(int(sys.argv[1]))).hash)"
)


def hash_in_another_process(make: Callable[[int], Plan], seed: int, hash_seed: str) -> str:
    """The history of a seed's plan, as a process tells it whose hashes of strings are others."""
    environment = {**os.environ, "PYTHONPATH": str(_SOURCE), "PYTHONHASHSEED": hash_seed}
    program = _HASH_OF.format(module=make.__module__, make=make.__name__)
    command = [sys.executable, "-c", program, str(seed)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
