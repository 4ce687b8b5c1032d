"""Which broker is under test: Penstock, or with PENSTOCK_FOREIGN_TARGET=kafka Apache Kafka itself."""

import os

from peers import tools
from peers.brokers import Broker
from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess

# What the tests shorten so that nobody has to wait; both brokers know these.
SETTINGS = {
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 200,
    "log.segment.delete.delay.ms": 1000,
}
# Kafka copies `min.insync.replicas` to the cluster's defaults for this feature, which Penstock does not have.
KAFKA_FEATURES = {"eligible.leader.replicas.version": 0}
KAFKA_SETTINGS = {**SETTINGS, "log.initial.task.delay.ms": 500}


def target_is_kafka() -> bool:
    return os.environ.get("PENSTOCK_FOREIGN_TARGET") == "kafka"


def new_kafka() -> ApacheKafka:
    tools.require("kafka")
    return ApacheKafka(settings=KAFKA_SETTINGS, features=KAFKA_FEATURES)


def new_broker() -> Broker:
    """A broker of the kind under test, not started."""
    return new_kafka() if target_is_kafka() else PenstockProcess(settings=SETTINGS)
