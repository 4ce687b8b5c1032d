"""When a failed flow is restarted: with exponential backoff, a limited number of times. Pure: time is an argument."""

from penstock.base.settings import Settings
from penstock.spark.pipelines.project import RESTART_DELAY_MS, RESTART_DELAY_MS_MAX, RESTARTS_MAX


class Restarts:
    """The failures of one flow since it last finished a batch."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.in_a_row = 0
        self.in_all = 0

    def failed(self, now_s: float) -> float | None:
        """The flow failed: when to restart it; None if there were too many restarts."""
        if self.in_a_row >= self._settings[RESTARTS_MAX]:
            return None
        doubled: int = self._settings[RESTART_DELAY_MS] << min(self.in_a_row, 31)
        self.in_a_row += 1
        self.in_all += 1
        return now_s + min(doubled, self._settings[RESTART_DELAY_MS_MAX]) / 1000

    def progressed(self) -> None:
        """A batch was finished: reset the count of failures."""
        self.in_a_row = 0
