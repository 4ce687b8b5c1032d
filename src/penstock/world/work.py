"""Functions that may block or compute for long run off the loop. Inline in the simulation."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Work(Protocol):
    """Runs functions where they cannot hold up the loop."""

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        """Run `function` off the loop; await the result, or get its exception."""
        ...

    def close(self) -> None:
        """Wait for what runs, then release the threads."""
        ...
