"""Fixtures for tests that need a broker: a Penstock process, or whichever TEST_BOOTSTRAP points at."""

import os
import re
import uuid
from collections.abc import Iterator

import pytest

from peers.penstock import PenstockProcess


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    if given := os.environ.get("TEST_BOOTSTRAP"):
        yield given
        return
    with PenstockProcess() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A new topic name, which contains the test's name so that a broker's log shows it."""
    story = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    return f"{story[:60]}-{uuid.uuid4().hex[:8]}"
