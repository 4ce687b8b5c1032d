"""What is measured, in this order. A measure is a module with

NAME       for `--only`
TITLE      what a person reads while it runs
WARM       whether it runs on the brokers that are warm already; if not, it starts its own
rows       which rows of the table it fills, at a scale
seconds    about how long one turn of one broker takes
turn       measures one broker once: figures by the keys of the rows
SPARK      if it is there and true: it is not two brokers that take turns but two connectors of Spark, on one broker
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from bench.measures import (
    backlog,
    cluster_size,
    commits,
    connections,
    failover,
    joining,
    joining_broker,
    latency,
    memory,
    partitions,
    rebalancing,
    replication,
    restarting,
    small_requests,
    spark_alerts,
    spark_read,
    spark_write,
    startup,
    throughput,
    transactions,
)
from bench.rows import Row
from bench.scale import Scale


class Measure(NamedTuple):
    """One module of this package."""

    name: str
    title: str
    is_warm: bool
    rounds: Callable[[Scale], int]
    rows: Callable[[Scale], list[Row]]
    seconds: Callable[[Scale], float]
    turn: Callable[[Any, Scale], dict[str, float]]  # a Contestant, or a SparkSide
    is_spark: bool = False


def _measure(module: ModuleType) -> Measure:
    return Measure(
        module.NAME,
        module.TITLE,
        module.WARM,
        module.rounds,
        module.rows,
        module.seconds,
        module.turn,
        getattr(module, "SPARK", False),
    )


MEASURES = tuple(
    map(
        _measure,
        (
            *(startup, memory, throughput, small_requests, latency, connections),
            *(commits, transactions, joining, restarting),
            *(backlog, partitions, rebalancing),
            *(failover, replication, cluster_size, joining_broker),
            *(spark_read, spark_write, spark_alerts),
        ),
    )
)
