"""What only brokers of the cluster may ask: ordinary clients are answered as Kafka answers without CLUSTER_ACTION."""

from typing import Any

import pytest

from penstock.apis import ApiTable
from penstock.base.errors import ErrorCode
from penstock.services.metrics import Metrics
from penstock.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.wire.messages.alter_partition import AlterPartitionRequest
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.raw_client import RawClient

WHOLE_APIS: list[Any] = [
    AlterPartitionRequest(broker_id=0, broker_epoch=0),
    BrokerHeartbeatRequest(broker_id=0, broker_epoch=0, want_shut_down=True),
    AllocateProducerIdsRequest(broker_id=0, broker_epoch=0),
]


def test_every_api_for_brokers_only_is_tried_here() -> None:
    assert [request.API_KEY for request in WHOLE_APIS] == list(ApiTable(Metrics()).between_brokers)


@pytest.mark.parametrize("request_", WHOLE_APIS, ids=lambda request: type(request).__name__)
def test_a_client_is_refused(client: RawClient, request_: Any) -> None:
    lowest, highest = ApiTable(Metrics()).between_brokers[request_.API_KEY]
    for version in range(lowest, highest + 1):
        assert client.ask(request_, version).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
