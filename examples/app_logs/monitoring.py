"""Error rate and latency per service over sliding windows, as alerts.

An alert says that in one window one service crossed one threshold. Its id is made of the three and is the record's key:
as more of the window arrives the alert is sent again with newer figures, and the last one per key counts (the topic may
be compacted). It waits neither for the end of a window nor for a watermark: the alert goes out with the batch that
crosses the threshold.

One bad stretch crosses several windows. `episodes` folds alerts into what a person wants to be called for: which
service, which trouble, since when, until when, how bad; `open` as long as its last window may still be followed by
another.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app_logs.parsing import events, is_error

WINDOW_S: Final = 10
SLIDE_S: Final = 5
REQUESTS_MIN: Final = 20  # fewer say nothing
ERROR_RATE_MAX: Final = 0.1
LATENCY_P95_MS_MAX: Final = 500.0
_ACCURACY: Final = (
    200  # of the percentile: half a percent of the ranks, in a state of a few kilobytes per window
)

ERROR_RATE: Final = "error_rate"
LATENCY_P95: Final = "latency_p95_ms"


def alerts(source: DataFrame) -> DataFrame:
    """Records for the alerts topic; for update mode, where a window that changed is looked at again."""
    told = thresholds_crossed(windows(events(source)))
    # Times as ISO 8601 in UTC, whatever the session's zone.
    value = F.to_json(F.struct(*told.columns), {"timeZone": "UTC"})
    return told.select(F.col("alert_id").cast("binary").alias("key"), value.cast("binary").alias("value"))


def windows(valid: DataFrame) -> DataFrame:
    """Per service and window: requests, errors, and the 95th percentile of the latency."""
    sliding = F.window("event_time", f"{WINDOW_S} seconds", f"{SLIDE_S} seconds")
    return valid.groupBy(sliding, "service").agg(
        F.count("*").alias("requests"),
        F.count_if(is_error()).alias("errors"),
        F.percentile_approx("latency_ms", 0.95, _ACCURACY).alias("latency_p95_ms"),
    )


def thresholds_crossed(per_window: DataFrame) -> DataFrame:
    """One row per alert: a window may have crossed both thresholds, one, or none."""
    kinds = F.filter(
        F.array(
            _kind(ERROR_RATE, F.col("errors") / F.col("requests"), ERROR_RATE_MAX),
            _kind(LATENCY_P95, F.col("latency_p95_ms"), LATENCY_P95_MS_MAX),
        ),
        lambda kind: kind["value"] >= kind["threshold"],
    )
    enough = per_window.where(F.col("requests") >= REQUESTS_MIN)
    crossed = enough.select("*", F.explode(kinds).alias("crossed"))  # why not withColumn: `declarative`
    start = F.date_format(
        F.to_utc_timestamp("window.start", F.current_timezone()), "yyyy-MM-dd'T'HH:mm:ss'Z'"
    )
    return crossed.select(
        F.concat_ws("/", "service", "crossed.kind", start).alias("alert_id"),
        "service",
        "crossed.kind",
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "crossed.value",
        "crossed.threshold",
        "requests",
        "errors",
    )


def _kind(name: str, value: Column, threshold: float) -> Column:
    return F.struct(
        F.lit(name).alias("kind"), value.cast("double").alias("value"), F.lit(threshold).alias("threshold")
    )


class Episode(NamedTuple):
    """A stretch of windows in which a service was over a threshold."""

    service: str
    kind: str
    since: datetime
    until: datetime
    worst: float
    open: bool


def episodes(told: Iterable[Mapping[str, Any]], *, now: datetime) -> list[Episode]:
    """Alerts, as read from the topic in order, folded into episodes; `now` is the newest event time known."""
    latest = {each["alert_id"]: each for each in told}
    found: list[Episode] = []
    by_subject = sorted(
        latest.values(), key=lambda each: (each["service"], each["kind"], each["window_start"])
    )
    for each in by_subject:
        since, until = (datetime.fromisoformat(each[name]) for name in ("window_start", "window_end"))
        value = float(each["value"])
        last = found[-1] if found else None
        if last and (last.service, last.kind) == (each["service"], each["kind"]) and since <= last.until:
            found[-1] = last._replace(until=until, worst=max(last.worst, value))
        else:
            found.append(Episode(each["service"], each["kind"], since, until, value, open=False))
    # The window after the last one is over by then, and no alert was sent for it.
    over_after = timedelta(seconds=SLIDE_S)
    return [each._replace(open=now < each.until + over_after) for each in found]
