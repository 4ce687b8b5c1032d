"""Long work in short slices, so that requests need not wait for it."""

from penstock.world.loop import Loop

SLICE_MS = 5.0


class Pacer:
    """Counts how long the work has held the loop; `pause` between two steps gives it back when it is time."""

    def __init__(self, loop: Loop, *, slice_ms: float = SLICE_MS) -> None:
        self._loop = loop
        self._slice_s = slice_ms / 1000
        self._started = loop.time()

    async def pause(self) -> None:
        """Let everybody else run first if the slice is used up; else go straight on."""
        if self._loop.time() - self._started < self._slice_s:
            return
        await self._loop.sleep(0)
        self._started = self._loop.time()

    def begin(self) -> None:
        """Start a new slice: the work has just waited for something else anyway."""
        self._started = self._loop.time()
