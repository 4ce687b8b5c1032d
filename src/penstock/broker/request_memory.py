"""How many bytes of requests the broker holds: those that are still arriving, and those that wait for something.

While there are too many, connections are no longer read, except those in the middle of a request: what they hold
is freed only when the rest has come. So the limit can be exceeded, by one request of each such connection.
"""

from collections.abc import Callable


class RequestMemory:
    """Counts, and remembers who to wake when there is room again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit  # -1: none
        self._held = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def held(self) -> int:
        return self._held

    @property
    def is_full(self) -> bool:
        return self._held > self._limit >= 0

    def add(self, count: int) -> None:
        """So many bytes more are held, or, if negative, fewer."""
        self._held += count
        if self._waiting and not self.is_full:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def wake_when_there_is_room(self, wake: Callable[[], None]) -> None:
        self._waiting[wake] = None

    def forget(self, wake: Callable[[], None]) -> None:
        self._waiting.pop(wake, None)
