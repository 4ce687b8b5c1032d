"""InitProducerId (key 22), v0-v5: ids for idempotent producers.

Leaves out transactional ids: they need a transaction coordinator, which is not available here yet.
"""

from collections.abc import Coroutine
from typing import Any

from penstock.base.errors import ErrorCode, StorageError
from penstock.services.context import Call
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest
VERSIONS = (0, 5)


def handle(
    call: Call, request: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    if request.transactional_id == "":
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _init(call)


async def _init(call: Call) -> InitProducerIdResponse:
    try:
        producer_id = await call.services.producer_ids.take()
    except StorageError:
        return InitProducerIdResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
