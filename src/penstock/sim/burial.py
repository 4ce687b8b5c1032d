"""Putting away the tasks that nobody will run any more, without a word to anybody.

Python runs the `finally` blocks of a coroutine that is thrown away, and warns of one that was never awaited. Here both
happen at a known time, when nothing that such code reaches for is there any more.
"""

import asyncio
import inspect
from collections.abc import Iterable
from types import FrameType
from typing import Any

# So many `finally` blocks of one coroutine may await something.
CLOSES_MAX = 32


def expect_no_end(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from complaining when the task is thrown away before it is done."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def bury(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Close what was left half done, or was never begun."""
    for task in tasks:
        expect_no_end(task)
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
            continue  # it awaits something in a `finally`: on to the next one
        return


def _close_unawaited(frame: FrameType | None) -> None:
    for value in list(frame.f_locals.values()) if frame is not None else ():
        if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
            _close(value)
