"""How a flow is doing, as displays and reports see it. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, NamedTuple

_WINDOW_S: Final = 5.0
_WINDOW_BATCHES_MAX: Final = 1_000


class State(Enum):
    """Where a flow is in its life; the words are what people read."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # failed, and will be started again
    FAILED = "failed"  # given up
    DONE = "done"
    STOPPED = "stopped"


class FlowView(NamedTuple):
    """One flow at one moment; None where nothing is known yet."""

    flow: str
    state: State
    rows: int
    rows_per_second: float
    lag: int | None
    batch: int | None
    batch_ms: int | None
    restarts: int
    problem: str | None = None
    retry_in_s: float | None = None
    # Of the oldest event when its batch was done, in the slowest batch since the last look; if events have a time.
    event_age_ms: int | None = None


def has_run(progress: Mapping[str, Any]) -> bool:
    """Whether progress tells of a batch. That of a trigger with nothing to do bears the number of the batch to come."""
    return "addBatch" in progress.get("durationMs", {})


def event_age_ms(batches: Iterable[Mapping[str, Any]]) -> int | None:
    """How old the oldest event of a batch was when the batch was done, in the slowest of the batches that Spark's
    progress tells of; None where events have no time (a watermark names it), or no batch had any."""
    ages_ms = (_event_age_ms(each) for each in batches)
    return max((each for each in ages_ms if each is not None), default=None)


def _event_age_ms(progress: Mapping[str, Any]) -> int | None:
    oldest = (progress.get("eventTime") or {}).get("min")
    if oldest is None:
        return None
    took_ms = int(progress.get("durationMs", {}).get("triggerExecution", 0))
    done = datetime.fromisoformat(progress["timestamp"]) + timedelta(milliseconds=took_ms)
    return round((done - datetime.fromisoformat(oldest)) / timedelta(milliseconds=1))


class Rate:
    """Rows per second over the last few seconds, from batches as they end."""

    def __init__(self, *, started_at_s: float) -> None:
        self._started_at_s = started_at_s
        self._batches: deque[tuple[float, int]] = deque(maxlen=_WINDOW_BATCHES_MAX)

    def add(self, *, now_s: float, rows: int) -> None:
        self._batches.append((now_s, rows))

    def per_second(self, now_s: float) -> float:
        while self._batches and self._batches[0][0] <= now_s - _WINDOW_S:
            self._batches.popleft()
        # A flow that has only begun is not called slow for the seconds it was not there.
        window_s = min(_WINDOW_S, max(1.0, now_s - self._started_at_s))
        return sum(rows for _, rows in self._batches) / window_s
