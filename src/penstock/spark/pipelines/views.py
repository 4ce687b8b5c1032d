"""A flow's state, for displays and reports. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, NamedTuple

_WINDOW_S: Final = 5.0
_WINDOW_BATCHES_MAX: Final = 1_000


class State(Enum):
    """The state of a flow; the values are displayed."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # failed, and will be restarted
    FAILED = "failed"  # failed for good
    DONE = "done"
    STOPPED = "stopped"


class FlowView(NamedTuple):
    """One flow at one moment; None for what is not known yet."""

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
    # The age of the oldest event when its batch was done, in the slowest batch since the last poll.
    event_age_ms: int | None = None


def has_run(progress: Mapping[str, Any]) -> bool:
    """Whether the progress is of a batch; that of a trigger without data has the number of the next batch."""
    return "addBatch" in progress.get("durationMs", {})


def event_age_ms(batches: Iterable[Mapping[str, Any]]) -> int | None:
    """The age of a batch's oldest event when the batch was done, for the slowest batch in Spark's progress; None if
    events have no time (no watermark), or no batch had events."""
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
        # For a flow that has just begun, only the seconds since then count.
        window_s = min(_WINDOW_S, max(1.0, now_s - self._started_at_s))
        return sum(rows for _, rows in self._batches) / window_s
