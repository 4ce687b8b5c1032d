"""Fixtures of the API tests: one broker in memory per module, a connection, and a topic name per test."""

import itertools
from collections.abc import Iterator

import pytest

from penstock.testing import EmbeddedBroker
from tests.raw_client import RawClient

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def another_client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """A name no other test of the session uses."""
    return f"topic-{next(_numbers)}"
