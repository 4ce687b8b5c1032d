"""From a failing service's records to its alert, through the monitoring flow of `examples/app_logs`, at 2,000 events a
second. On the other side the same flow runs between Spark's own source and sink, which is at least once.
"""

import sys
from pathlib import Path

from bench.load.trials import alert_delays_s, logs_with_trials
from bench.rows import Better, Goal, Row, percentile
from bench.scale import Scale
from bench.spark_sides import SparkSide

NAME = "spark_alerts"
TITLE = "from produce to alert"
WARM = True
SPARK = True

_RATE = 2_000
_TRIALS = 12
_NOT_COUNTED = 4  # the first ones: state stores are made, code is compiled
_SECONDS_MAX = 2
_PARTITIONS = 4
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def rounds(_scale: Scale) -> int:
    return 1


def seconds(_scale: Scale) -> float:
    return 10 + _TRIALS * 2


def rows(_scale: Scale) -> list[Row]:
    title = f"produce to alert at {_RATE:,} events/s"
    return [
        Row(f"{NAME}.p50", f"{title}: p50", "s", Better.LESS),
        Row(f"{NAME}.max", f"{title}: longest", "s", Better.LESS, Goal(limit=_SECONDS_MAX)),
    ]


def turn(side: SparkSide, _scale: Scale) -> dict[str, float]:
    if str(_EXAMPLES) not in sys.path:
        sys.path.append(str(_EXAMPLES))
    from app_logs.monitoring import alerts

    with (
        side.broker.topic(partitions=_PARTITIONS) as logs,
        side.broker.topic(partitions=1) as told,
        logs_with_trials(side.broker.bootstrap, logs, rate=_RATE, trials=_TRIALS) as made,
    ):
        query = side.start_stream(logs, told, alerts)
        try:
            delays = alert_delays_s(side.broker.bootstrap, told, made, trials=_TRIALS)
        finally:
            query.stop()
    counted = sorted(delays[_NOT_COUNTED:])
    return {f"{NAME}.p50": percentile(counted, 0.5), f"{NAME}.max": counted[-1]}
