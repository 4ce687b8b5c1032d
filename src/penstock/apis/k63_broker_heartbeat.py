"""BrokerHeartbeat (key 63), v0-v1: a broker asks the controller for a controlled shutdown. Between brokers only.

ZooKeeper sessions show which brokers are alive, so brokers do not send heartbeats periodically as in KRaft.
"""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, CLUSTER_ACTION
from penstock.base.errors import ErrorCode
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

REQUEST = BrokerHeartbeatRequest
VERSIONS = (0, 1)
NEEDS = (Need(CLUSTER_ACTION, CLUSTER),)
BROKERS_ONLY = True


async def handle(call: Call, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    services = call.services
    broker = services.cluster.image.brokers.get(request.broker_id)
    if not services.cluster.controller.is_active or services.cluster.broker_registry is None:
        return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if broker is None or broker.epoch != request.broker_epoch:
        return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    left = (
        await services.cluster.broker_registry.controlled_shutdown(request.broker_id)
        if request.want_shut_down
        else 1
    )
    return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=broker.fenced, should_shut_down=left == 0)
