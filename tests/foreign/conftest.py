"""The brokers of the foreign tests.

`broker` is a Penstock process. With PENSTOCK_FOREIGN_TARGET=kafka it is Apache Kafka instead: a test that
fails there asks for something that Kafka does not do. `kafka` is Apache Kafka in any case, for tests that
compare. One process of each serves a whole session, so tests use topics of their own.
"""

import os
import re
import uuid
from collections.abc import Iterator

import pytest

from peers import tools
from peers.brokers import Broker
from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess
from tests.foreign.wire_peer import Pair

# What the tests shorten so that nobody has to wait; both brokers know these.
SETTINGS = {
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 200,
    "log.segment.delete.delay.ms": 1000,
}
KAFKA_SETTINGS = {**SETTINGS, "log.initial.task.delay.ms": 500}


def target_is_kafka() -> bool:
    return os.environ.get("PENSTOCK_FOREIGN_TARGET") == "kafka"


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    if target_is_kafka():
        tools.require("kafka")
        with ApacheKafka(settings=KAFKA_SETTINGS) as kafka:
            yield kafka
    else:
        with PenstockProcess(settings=SETTINGS) as penstock:
            yield penstock


@pytest.fixture(scope="session")
def kafka() -> Iterator[ApacheKafka]:
    tools.require("kafka")
    with ApacheKafka(settings=KAFKA_SETTINGS) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def pair(kafka: ApacheKafka, broker: Broker) -> Iterator[Pair]:
    with Pair.connected(kafka, broker) as pair:
        yield pair


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that nobody has used, and that tells in a broker's log which test it was."""
    story = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    return f"{story[:60]}-{uuid.uuid4().hex[:8]}"
