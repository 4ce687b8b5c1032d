"""Background tasks: each has an owner that stops it, and an unexpected failure is logged or handed on, never lost.

`Tasks` are the tasks of one owner. `repeat` is the loop of a task that does the same work again and again.
`cancel_and_wait` is for tasks whose outcome another task awaits.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from penstock.world.disk import found_no_room
from penstock.world.loop import Loop

T = TypeVar("T")

log = logging.getLogger("penstock.tasks")


async def cancel_and_wait(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks, and return when all of them have ended, in whatever way."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def log_failure(name: str, error: BaseException) -> None:
    log.error("background task %s failed: %s", name, error, exc_info=error)


class Tasks:
    """The background tasks of one owner."""

    def __init__(self, loop: Loop, *, on_failure: Callable[[str, BaseException], None] = log_failure) -> None:
        self._loop = loop
        self._on_failure = on_failure  # called with the name of a task that raised, and what it raised
        self._running: dict[asyncio.Task[Any], None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, name: str, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = self._loop.create_task(coroutine, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def is_running(self, name: str) -> bool:
        return any(task.get_name() == name and not task.done() for task in self._running)

    async def finish(self) -> None:
        """Return when no task is left; none is cancelled."""
        while self._running:
            await asyncio.wait(list(self._running))

    def cancel(self) -> None:
        """Cancel all tasks; they end later."""
        for task in self._running:
            task.cancel()

    async def stop(self) -> None:
        """Cancel all tasks, and those that they start meanwhile; returns when none is left."""
        while self._running:
            await cancel_and_wait(*self._running)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        del self._running[task]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_failure(task.get_name(), error)


def _no_pause() -> float:
    return 0.0


async def repeat(
    loop: Loop,
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    log: logging.Logger,
    interval_s: Callable[[], float] = _no_pause,
    retry_s: float | None = None,
    passing: type[Exception] | tuple[type[Exception], ...] = (),
) -> None:
    """Run `work` again and again, each time after `interval_s`; work that does its own waiting needs no interval.

    A failure is logged, and the work is run again after `retry_s`, or else after the next interval. A full disk, and
    errors of the classes in `passing`, may last for many intervals: they are logged once until the work succeeds.
    """
    is_known_to_fail = False
    while True:
        await loop.sleep(interval_s())
        try:
            await work()
            is_known_to_fail = False
            continue
        except Exception as error:
            pause_s = interval_s() if retry_s is None else retry_s
            line = "background task %s failed: %s; retrying in %g s"
            if not isinstance(error, passing) and not (isinstance(error, OSError) and found_no_room(error)):
                log.exception(line, name, error, pause_s)
            elif not is_known_to_fail:
                is_known_to_fail = True
                log.warning(line, name, error, pause_s)
        if retry_s is not None:
            await loop.sleep(retry_s)
