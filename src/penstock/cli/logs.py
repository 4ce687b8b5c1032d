"""The log format of `penstock serve`: text lines with the time, or one JSON object per line.

"ready" and "stopping" go to stdout, all other lines to stderr, in the same format. kazoo, the ZooKeeper client, logs
from WARNING on, and each of its repeated lines once a minute.
"""

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Final, TextIO

from penstock.cli.streams import closed

TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = (TEXT, JSON)

announce: Final = logging.getLogger("penstock.serve")

_TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_REPETITION_S: Final = 60.0
_REMEMBERED_MAX: Final = 100


def configure_logs(*, verbose: bool = False, form: str = TEXT) -> None:
    """Log to stderr and announce on stdout; `verbose` adds Penstock's DEBUG lines."""
    formatter = JsonFormatter() if form == JSON else logging.Formatter(_TEXT_FORMAT)
    errors = _handler(sys.stderr, formatter)
    errors.addFilter(RepetitionFilter("kazoo"))
    logging.basicConfig(level=logging.INFO, handlers=[errors])
    logging.getLogger("penstock").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    announce.propagate = False
    announce.addHandler(_handler(sys.stderr if "stdout" in closed else sys.stdout, formatter))
    # A broker whose stderr is closed keeps running, without an error for each line.
    logging.raiseExceptions = False


def _handler(stream: TextIO, formatter: logging.Formatter) -> logging.Handler:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    return handler


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, message, and the traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class RepetitionFilter(logging.Filter):
    """Logs a repeated line once a minute, with the number of repetitions left out."""

    def __init__(self, logger: str) -> None:
        super().__init__()
        self._logger = logger
        self._seen: dict[
            str, tuple[float, int]
        ] = {}  # message → when it was last logged, how many were left out since

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != self._logger and not record.name.startswith(f"{self._logger}."):
            return True
        message = record.getMessage()
        now = time.monotonic()
        passed_at, left_out = self._seen.get(message, (float("-inf"), 0))
        if now - passed_at < _REPETITION_S:
            self._seen[message] = (passed_at, left_out + 1)
            return False
        if len(self._seen) >= _REMEMBERED_MAX:
            self._seen.clear()
        self._seen[message] = (now, 0)
        if left_out:
            record.msg, record.args = f"{message} (and {left_out} times more since the last such line)", None
        return True
