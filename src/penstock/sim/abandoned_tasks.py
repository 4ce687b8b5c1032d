"""Closes the tasks of killed processes and of simulations that have ended, without warnings.

Python runs the `finally` blocks of a coroutine that is garbage-collected, and warns of one that was never awaited. Both
happen here, at a defined time, when nothing that such code could change exists any more.
"""

import asyncio
import inspect
from collections.abc import Iterable
from types import FrameType
from typing import Any

# At most so many `finally` blocks of one coroutine may await something.
CLOSES_MAX = 32


def silence_pending_warning(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from logging that a pending task was destroyed."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def close_abandoned(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Close the coroutines of tasks that will not run any more, started or not."""
    for task in tasks:
        silence_pending_warning(task)
        _close(task.get_coro())


def _close(coroutine: Any) -> None:
    awaited = coroutine
    while inspect.iscoroutine(awaited):
        _close_unawaited(awaited.cr_frame)
        awaited = awaited.cr_await
    for _ in range(CLOSES_MAX):
        try:
            coroutine.close()
        except BaseException:
            continue  # it awaits something in a `finally` block: close it again
        return


def _close_unawaited(frame: FrameType | None) -> None:
    for value in list(frame.f_locals.values()) if frame is not None else ():
        if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
            _close(value)
