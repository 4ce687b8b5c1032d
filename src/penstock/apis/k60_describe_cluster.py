"""DescribeCluster (key 60), v0-v2: the cluster's id, controller and brokers."""

from penstock.apis.context import Call
from penstock.apis.needs import Needs
from penstock.base.errors import ErrorCode
from penstock.services.authorized_operations import CLUSTER_OPERATIONS
from penstock.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

REQUEST = DescribeClusterRequest
VERSIONS = (0, 2)
NEEDS: Needs = ()  # every client learns the addresses of the brokers, as in Kafka
LOW_PRIORITY = True

BROKERS = 1
CONTROLLERS = 2


def handle(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    image = call.services.cluster.image
    if request.endpoint_type != BROKERS:
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLERS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        return DescribeClusterResponse(
            error_code=code, error_message="This endpoint describes brokers only.", cluster_id=""
        )
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
            for b in image.addresses(call.client.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
