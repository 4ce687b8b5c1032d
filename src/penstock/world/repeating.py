"""A periodic call on the event loop."""

from collections.abc import Callable

from penstock.world.loop import Loop, Timer


class Repeating:
    """Calls a function every `interval_s`, first after that time, until it is stopped."""

    def __init__(self, loop: Loop, interval_s: float, function: Callable[[], None]) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._function = function
        self._timer: Timer = loop.call_later(interval_s, self._fire)

    def now(self) -> None:
        """Call it now, and count the interval from now."""
        self._timer.cancel()
        self._fire()

    def stop(self) -> None:
        self._timer.cancel()

    def _fire(self) -> None:
        self._timer = self._loop.call_later(self._interval_s, self._fire)
        self._function()
