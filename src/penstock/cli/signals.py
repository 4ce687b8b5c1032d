"""SIGTERM and SIGHUP end a command as Ctrl-C does: its `finally` blocks run first."""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from penstock.client.blocking import BlockingClient

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def run_until_ended(blocking: BlockingClient, work: Coroutine[Any, Any, None]) -> None:
    """Run `work`; a signal cancels it, waits for its `finally` blocks, and raises KeyboardInterrupt.

    A second signal of the same kind ends the process at once. An ignored signal, as SIGHUP under `nohup`, stays
    ignored.
    """
    try:
        blocking.run(_cancelled_by_signals(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _cancelled_by_signals(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.current_task()
    assert task is not None
    with _handling_signals(asyncio.get_running_loop(), task):
        await work


@contextmanager
def _handling_signals(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]") -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(task.cancel)

    handled = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
