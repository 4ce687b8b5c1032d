"""Requests, errors and latencies per endpoint and minute, for a table that is kept by `KEY`.

In update mode: a minute is there as soon as its first request is, and each batch brings the rows that changed.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from app_logs.parsing import events, is_error

KEY: Final = ("minute", "service", "endpoint")
_PERCENTILES: Final = (0.5, 0.95, 0.99)
_ACCURACY: Final = 1000


def endpoint_minutes(source: DataFrame) -> DataFrame:
    """A row per minute, service and endpoint."""
    return per_minute(events(source))


def per_minute(valid: DataFrame) -> DataFrame:
    """The same from events."""
    minutes = valid.groupBy(F.window("event_time", "1 minute"), "service", "endpoint").agg(
        F.count("*").alias("requests"),
        F.count_if(is_error()).alias("errors"),
        F.percentile_approx("latency_ms", list(_PERCENTILES), _ACCURACY).alias("latency_ms"),
        F.max("latency_ms").alias("latency_ms_max"),
    )
    return minutes.select(
        F.col("window.start").alias("minute"),
        "service",
        "endpoint",
        "requests",
        "errors",
        *(
            F.col("latency_ms")[place].alias(f"latency_ms_p{round(share * 100)}")
            for place, share in enumerate(_PERCENTILES)
        ),
        "latency_ms_max",
    )
