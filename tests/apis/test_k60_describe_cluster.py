from penstock.base.errors import ErrorCode
from penstock.testing import EmbeddedBroker
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.metadata import MetadataRequest
from tests.raw_client import RawClient

NOT_ASKED_FOR = -(2**31)


def test_the_cluster_is_this_broker(broker: EmbeddedBroker, client: RawClient):
    answer = client.ask(DescribeClusterRequest(), 2)
    (node,) = answer.brokers
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    assert (answer.controller_id, node.broker_id, node.is_fenced) == (1, 1, False)
    assert answer.cluster_id == client.ask(MetadataRequest(topics=[]), 12).cluster_id


def test_authorised_operations_are_returned_only_when_requested(client: RawClient):
    assert client.ask(DescribeClusterRequest(), 2).cluster_authorized_operations == NOT_ASKED_FOR
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert client.ask(asked, 2).cluster_authorized_operations > 0


def test_this_is_an_endpoint_for_brokers_not_for_controllers(client: RawClient):
    controllers = client.ask(DescribeClusterRequest(endpoint_type=2), 2)
    assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    nonsense = client.ask(DescribeClusterRequest(endpoint_type=9), 2)
    assert nonsense.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
