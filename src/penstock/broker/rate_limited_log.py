"""Limits how many log lines peers can cause."""

import logging
from collections.abc import Callable

LINES_MAX = 100
WITHIN_S = 10.0


class RateLimitedLog:
    """Logs up to `LINES_MAX` warnings in `WITHIN_S`, and then how many were left out."""

    def __init__(self, log: logging.Logger, time: Callable[[], float]) -> None:
        self._log = log
        self._time = time
        self._count = 0
        self._until = 0.0

    def warn(self, message: str, *details: object) -> None:
        now = self._time()
        if now >= self._until:
            self._log_suppressed_count()
            self._count, self._until = 0, now + WITHIN_S
        self._count += 1
        if self._count <= LINES_MAX:
            self._log.warning(message, *details)

    def _log_suppressed_count(self) -> None:
        if self._count > LINES_MAX:
            self._log.warning(
                "%d more connections were refused or closed; only %d lines are logged in %d s",
                self._count - LINES_MAX,
                LINES_MAX,
                WITHIN_S,
            )
