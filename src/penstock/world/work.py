"""Runs functions that may block or compute for long in worker threads; inline in the simulation."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Work(Protocol):
    """Runs functions outside of the event loop."""

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run `function` in a worker thread; await its result or exception."""
        ...

    def close(self) -> None:
        """Wait for running functions, then end the threads."""
        ...
