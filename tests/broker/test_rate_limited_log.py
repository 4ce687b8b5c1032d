import logging

import pytest

from penstock.broker.rate_limited_log import LINES_MAX, WITHIN_S, RateLimitedLog


def test_a_flood_of_warnings_is_cut_and_counted(caplog: pytest.LogCaptureFixture):
    now = 50.0
    lines = RateLimitedLog(logging.getLogger("test"), lambda: now)
    for number in range(LINES_MAX + 7):
        lines.warn("connection %d closed", number)
    assert len(caplog.records) == LINES_MAX
    now += WITHIN_S
    lines.warn("connection %d closed", 1)
    assert [record.getMessage() for record in caplog.records[LINES_MAX:]] == [
        "7 more connections were refused or closed; only 100 lines are logged in 10 s",
        "connection 1 closed",
    ]


def test_few_warnings_are_all_logged(caplog: pytest.LogCaptureFixture):
    now = 50.0
    lines = RateLimitedLog(logging.getLogger("test"), lambda: now)
    for _ in range(5):
        now += WITHIN_S
        lines.warn("once")
    assert [record.getMessage() for record in caplog.records] == ["once"] * 5
