"""Who waits for what: a line for each task that has not ended, for the message of a deadlock."""

import asyncio
from collections.abc import Iterable
from types import CodeType
from typing import Any

from penstock.sim.place import Place


def describe_waiting(places: Iterable[Place]) -> str:
    """One line per pending task, by process; killed ones wait for nothing."""
    lines = [
        f"  {place.name}: {_describe(task)}" for place in places if not place.revoked for task in place.tasks
    ]
    return "\n".join(lines) if lines else "  nobody: there is no task"


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
