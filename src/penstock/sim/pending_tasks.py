"""Describes what each pending task awaits, for the message of a deadlock."""

import asyncio
from collections.abc import Iterable
from types import CodeType
from typing import Any

from penstock.sim.process import SimProcess


def describe_pending(processes: Iterable[SimProcess]) -> str:
    """One line per pending task of processes that are not killed."""
    lines = [
        f"  {process.name}: {_describe(task)}"
        for process in processes
        if not process.killed
        for task in process.tasks
    ]
    return "\n".join(lines) if lines else "  there is no pending task"


def _describe(task: asyncio.Task[Any]) -> str:
    steps = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        code: CodeType | None = getattr(awaited, "cr_code", None) or getattr(awaited, "gi_code", None)
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if code is None:
            steps.append(type(awaited).__name__)
            break
        line = "" if frame is None else f" line {frame.f_lineno}"
        steps.append(f"{code.co_qualname}{line}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return " → ".join(steps)
