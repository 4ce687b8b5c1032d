"""The brokers of the foreign tests.

`broker` is a Penstock process. With PENSTOCK_FOREIGN_TARGET=kafka it is Apache Kafka instead: a test that
fails there asks for something that Kafka does not do. `kafka` is Apache Kafka in any case, for tests that
compare. One process of each serves a whole session, so tests use topics of their own.
"""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.brokers import Broker
from peers.kafka import ApacheKafka
from tests.foreign.target import new_broker, new_kafka, target_is_kafka
from tests.foreign.wire_peer import Pair


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if target_is_kafka():
        here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
        for item in here:
            item.add_marker(pytest.mark.needs("kafka"))


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with new_broker() as broker:
        yield broker


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """For a test that kills it."""
    with new_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(needs_kafka: None) -> Iterator[ApacheKafka]:
    with new_kafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def pair(kafka: ApacheKafka, broker: Broker) -> Iterator[Pair]:
    with Pair.connected(kafka, broker) as pair:
        yield pair


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A new topic name, which contains the test's name so that a broker's log shows it."""
    story = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    return f"{story[:60]}-{uuid.uuid4().hex[:8]}"
