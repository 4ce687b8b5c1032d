"""Which broker is under test: Penstock, or with PENSTOCK_FOREIGN_TARGET=kafka Apache Kafka itself."""

import os
from collections.abc import Mapping

from peers.brokers import Broker
from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess

# Intervals and delays shortened to save time in tests; both brokers have these settings.
SETTINGS = {
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 200,
    "log.segment.delete.delay.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
}
KAFKA_SETTINGS = {**SETTINGS, "log.initial.task.delay.ms": 500}


def target_is_kafka() -> bool:
    return os.environ.get("PENSTOCK_FOREIGN_TARGET") == "kafka"


def new_kafka(
    settings: Mapping[str, object] | None = None,
    *,
    listeners: Mapping[str, str] | None = None,
    users: Mapping[str, str] | None = None,
) -> ApacheKafka:
    return ApacheKafka(
        settings={**KAFKA_SETTINGS, **(settings or {})},
        listeners=listeners,
        users=users,
    )


def new_broker(settings: Mapping[str, object] | None = None) -> Broker:
    """A broker of the kind under test, not started."""
    if target_is_kafka():
        return new_kafka(settings)
    return PenstockProcess(settings={**SETTINGS, **(settings or {})})
