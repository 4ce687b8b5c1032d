"""The event age of a flow, computed from Spark's progress reports."""

from penstock.spark.pipelines.views import event_age_ms

PROGRESS = {
    "timestamp": "2026-07-01T12:00:10.250Z",
    "durationMs": {"addBatch": 900, "triggerExecution": 1_250},
    "eventTime": {"min": "2026-07-01T12:00:08.000Z", "max": "2026-07-01T12:00:10.000Z"},
}


def test_the_age_of_a_batch_is_that_of_its_oldest_event_when_it_was_done() -> None:
    assert event_age_ms([PROGRESS]) == 3_500


def test_a_batch_whose_events_have_no_time_has_no_age() -> None:
    assert event_age_ms([{**PROGRESS, "eventTime": {}}]) is None
    assert event_age_ms([{**PROGRESS, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}]) is None


def test_of_several_batches_between_two_looks_the_slowest_is_told() -> None:
    quick = {**PROGRESS, "durationMs": {"triggerExecution": 250}}
    empty = {**PROGRESS, "eventTime": {}}

    assert event_age_ms([PROGRESS, quick, empty]) == 3_500
