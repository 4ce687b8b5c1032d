"""FindCoordinator (key 10), v0-v6: says that no coordinator is available.

It is advertised because librdkafka compresses with lz4 only where it is. Groups and transactions have no
coordinator yet, so clients are told to try again later.
"""

from penstock.base.errors import ErrorCode
from penstock.services.context import Call
from penstock.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

REQUEST = FindCoordinatorRequest
VERSIONS = (0, 6)

SEVERAL_KEYS_SINCE = 4

_MESSAGE = "This broker has no group or transaction coordinator."


def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if call.version < SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(error_code=code, error_message=_MESSAGE, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=_MESSAGE)
            for key in request.coordinator_keys
        ]
    )
