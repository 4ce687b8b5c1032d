"""The clock of a loaded shard: its timers, and the timestamps of what it decides."""

import math

from penstock.world import World


class SteadyClock:
    """Wall-clock milliseconds that never jump: the wall clock at the start, plus the monotonic time since then.

    The start of a timeout is rounded up (`now_ms`), the time that is compared with deadlines down (`passed_ms`): so no
    timeout ends a fraction of a millisecond early.
    """

    def __init__(self, world: World) -> None:
        self._loop = world.loop
        self._wall_ms = world.loop.now_ms()
        self._since_s = world.loop.time()

    def now_ms(self) -> int:
        """The time from which a timeout that starts now is counted: rounded up."""
        return self._wall_ms + math.ceil((self._loop.time() - self._since_s) * 1000)

    def passed_ms(self) -> int:
        """The time up to which every deadline has passed: rounded down."""
        return self._wall_ms + int((self._loop.time() - self._since_s) * 1000)

    def seconds_until(self, due_ms: int) -> float:
        return (due_ms - self._wall_ms) / 1000 - (self._loop.time() - self._since_s)
