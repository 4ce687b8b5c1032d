"""The clocks of one machine: one for intervals that may run fast or slow, one for the date that may also jump."""

from collections.abc import Callable

# The date on which every simulation begins, in milliseconds since the epoch: 2030-01-01.
EPOCH_MS = 1_893_456_000_000


class Clock:
    """What a machine takes for the time; `true_time` is the simulation's own."""

    def __init__(self, true_time: Callable[[], float]) -> None:
        self._true_time = true_time
        self._rate = 1.0
        self._shown_s = 0.0  # what the clock showed ...
        self._since_s = 0.0  # ... at this true time, when its rate was last changed
        self._ahead_ms = 0

    def time(self) -> float:
        """Monotonic seconds, for intervals."""
        return self._shown_s + (self._true_time() - self._since_s) * self._rate

    def now_ms(self) -> int:
        """The date, in milliseconds since the epoch."""
        return EPOCH_MS + int(self.time() * 1000) + self._ahead_ms

    def true_time_at(self, shown_s: float) -> float:
        """When this clock will show `shown_s`, should its rate stay what it is."""
        return self._since_s + (shown_s - self._shown_s) / self._rate

    def skew(self, rate: float) -> None:
        """From now on, `rate` seconds pass here in each true one. Timers that run keep their moment."""
        assert rate > 0
        self._shown_s = self.time()
        self._since_s = self._true_time()
        self._rate = rate

    def jump(self, milliseconds: int) -> None:
        """Set the date forward or back; intervals are not changed."""
        self._ahead_ms += milliseconds
