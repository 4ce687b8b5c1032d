"""The clock of a loaded shard: its timers, and the timestamps of what it decides."""

import math

from penstock.world import World


class SteadyClock:
    """Wall-clock milliseconds that never jump: the wall's at the start, and from then on the monotonic clock's.

    What begins now begins when this millisecond is over, and what is due is due when all of its last millisecond is:
    so no deadline passes a fraction of a millisecond early.
    """

    def __init__(self, world: World) -> None:
        self._loop = world.loop
        self._wall_ms = world.loop.now_ms()
        self._since_s = world.loop.time()

    def now_ms(self) -> int:
        """For what begins now; deadlines are counted from here."""
        return self._wall_ms + math.ceil((self._loop.time() - self._since_s) * 1000)

    def passed_ms(self) -> int:
        """For what is due: every deadline up to here has passed."""
        return self._wall_ms + int((self._loop.time() - self._since_s) * 1000)

    def seconds_until(self, due_ms: int) -> float:
        return (due_ms - self._wall_ms) / 1000 - (self._loop.time() - self._since_s)
