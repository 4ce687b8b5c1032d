"""Fixtures of tests that have a `cluster` of broker processes."""

import pytest
from confluent_kafka.admin import AdminClient

from peers.cluster import PenstockCluster


@pytest.fixture
def admin(cluster: PenstockCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name.removeprefix("test_"))[:60]
