"""Splits long work on the event loop into short slices, so that requests do not wait for it."""

from penstock.world.loop import Loop

SLICE_MS = 5.0


class Pacer:
    """Measures how long work has occupied the event loop; `pause` between two steps yields when a slice is used up."""

    def __init__(self, loop: Loop, *, slice_ms: float = SLICE_MS) -> None:
        self._loop = loop
        self._slice_s = slice_ms / 1000
        self._started = loop.time()

    async def pause(self) -> None:
        """Let other tasks run if the slice is used up; else return at once."""
        if self._loop.time() - self._started < self._slice_s:
            return
        await self._loop.sleep(0)
        self._started = self._loop.time()

    def begin(self) -> None:
        """Start a new slice, after an await that let other tasks run."""
        self._started = self._loop.time()
