"""AllocateProducerIds (key 67), v0: a broker asks the controller for a block of producer ids. Between brokers only."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, CLUSTER_ACTION
from penstock.base.errors import ErrorCode, Refusal
from penstock.cluster.metadata import PRODUCER_ID_BLOCK
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

REQUEST = AllocateProducerIdsRequest
VERSIONS = (0, 0)
NEEDS = (Need(CLUSTER_ACTION, CLUSTER),)
BROKERS_ONLY = True


async def handle(call: Call, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    broker = call.services.cluster.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    first = await call.services.cluster.controller.allocate_producer_ids()
    if isinstance(first, Refusal):
        return AllocateProducerIdsResponse(error_code=first.code)
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK)
