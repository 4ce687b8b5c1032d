"""The form of log lines, and lines that repeat."""

import json
import logging

import pytest

from penstock.cli import logs
from penstock.cli.logs import JsonFormatter, RepetitionFilter


def record(message: str, *arguments: object, logger: str = "kazoo.client") -> logging.LogRecord:
    return logging.LogRecord(logger, logging.WARNING, __file__, 1, message, arguments, None)


def test_a_line_of_kazoo_that_repeats_is_written_once_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: now)
    only = RepetitionFilter("kazoo")
    assert only.filter(record("refused by %s", "zk1"))
    for _ in range(5):
        assert not only.filter(record("refused by %s", "zk1"))
    assert only.filter(record("refused by %s", "zk2")), "another line"
    now += 61
    later = record("refused by %s", "zk1")
    assert only.filter(later)
    assert later.getMessage() == "refused by zk1 (and 5 times more since the last such line)"


def test_other_loggers_may_repeat_themselves() -> None:
    only = RepetitionFilter("kazoo")
    assert all(only.filter(record("again", logger="penstock.broker")) for _ in range(3))
    assert all(only.filter(record("again", logger="kazoolike")) for _ in range(3))


def test_an_exception_is_a_field_of_its_own_and_the_line_stays_one() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        failed = logging.LogRecord(
            "a", logging.ERROR, __file__, 1, "it failed", (), (ValueError, error, None)
        )
    line = JsonFormatter().format(failed)
    assert "\n" not in line
    assert json.loads(line)["message"] == "it failed"
    assert "ValueError" in json.loads(line)["exception"]
