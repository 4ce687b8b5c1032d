"""Fixtures of tests that have a `cluster` of broker processes."""

import pytest
from confluent_kafka.admin import AdminClient

from peers.cluster import PenstockCluster


@pytest.fixture
def admin(cluster: PenstockCluster) -> AdminClient:
    cluster.start_missing()  # a test that failed may have left one dead, and should not fail the next
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name.removeprefix("test_"))[:60]
