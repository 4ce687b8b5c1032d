"""A leader's decisions about timestamps, offsets and what may be fetched."""

import pytest

from penstock.base.errors import ErrorCode
from penstock.core.request_checks import (
    TimestampRule,
    epoch_error,
    fetch_offset_error,
    timestamp_refusal,
)
from penstock.records.batch import LOG_APPEND_TIME, read_header
from penstock.records.builder import build_batch
from penstock.records.record import Record

NOW_MS = 1_000_000


def header(*timestamps, attributes=0):
    records = [Record(number, timestamp, None, b"x", ()) for number, timestamp in enumerate(timestamps)]
    made = read_header(build_batch(records))
    return made._replace(attributes=made.attributes | attributes)


CREATE_TIME = TimestampRule(log_append_time=False, before_max_ms=100, after_max_ms=50)
APPEND_TIME = TimestampRule(log_append_time=True, before_max_ms=100, after_max_ms=50)


@pytest.mark.parametrize(
    "timestamps", [[NOW_MS], [NOW_MS - 100], [NOW_MS + 50], [-1], [NOW_MS - 100, NOW_MS + 50]]
)
def test_timestamps_within_the_range_are_taken(timestamps):
    assert timestamp_refusal(header(*timestamps), CREATE_TIME, now_ms=NOW_MS) is None


@pytest.mark.parametrize("timestamps", [[NOW_MS - 101], [NOW_MS + 51], [NOW_MS, NOW_MS + 51], [0]])
def test_timestamps_too_far_from_the_brokers_clock_are_refused(timestamps):
    refusal = timestamp_refusal(header(*timestamps), CREATE_TIME, now_ms=NOW_MS)
    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_TIMESTAMP
    assert "999900 to 1000050" in refusal.message


def test_with_append_time_the_producers_timestamps_do_not_matter():
    assert timestamp_refusal(header(5), APPEND_TIME, now_ms=NOW_MS) is None


@pytest.mark.parametrize("rule", [CREATE_TIME, APPEND_TIME])
def test_a_producer_cannot_claim_the_brokers_clock(rule):
    refusal = timestamp_refusal(header(NOW_MS, attributes=LOG_APPEND_TIME), rule, now_ms=NOW_MS)
    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_TIMESTAMP


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_is_unknown():
    assert epoch_error(-1, leader_epoch=5) is ErrorCode.NONE
    assert epoch_error(5, leader_epoch=5) is ErrorCode.NONE
    assert epoch_error(4, leader_epoch=5) is ErrorCode.FENCED_LEADER_EPOCH
    assert epoch_error(6, leader_epoch=5) is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("offset", "inside"), [(9, False), (10, True), (15, True), (20, True), (21, False), (-1, False)]
)
def test_a_fetch_may_begin_anywhere_in_the_log_and_at_its_end(offset, inside):
    error = fetch_offset_error(offset, start_offset=10, end_offset=20)
    assert error is (ErrorCode.NONE if inside else ErrorCode.OFFSET_OUT_OF_RANGE)
