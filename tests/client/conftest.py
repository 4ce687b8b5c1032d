from collections.abc import Iterator

import pytest

from penstock.client.blocking import BlockingClient
from tests.broker_fixtures import bootstrap, topic

__all__ = ["blocking", "bootstrap", "topic"]


@pytest.fixture
def blocking(bootstrap: str) -> Iterator[BlockingClient]:
    with BlockingClient(bootstrap) as client:
        yield client
