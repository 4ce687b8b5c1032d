"""FindCoordinator (key 10), v0-v6: says that no coordinator is available.

It is advertised because librdkafka compresses with lz4 only where it is. Groups and transactions have no
coordinator yet, so clients are told to try again later.
"""

import re

from penstock.base.errors import ErrorCode, Refusal
from penstock.services.context import Call
from penstock.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

REQUEST = FindCoordinatorRequest
VERSIONS = (0, 6)

SEVERAL_KEYS_SINCE = 4

GROUP = 0
TRANSACTION = 1
SHARE = 2

# What a share group's key looks like: group, topic id, partition.
_SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+\Z")


def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version < SEVERAL_KEYS_SINCE:
        refusal = _refusal(request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=refusal.code, error_message=refusal.message, node_id=-1, host="", port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[_nobody(key, _refusal(request.key_type, key)) for key in request.coordinator_keys]
    )


def _refusal(key_type: int, key: str) -> Refusal:
    if key_type not in (GROUP, TRANSACTION, SHARE):
        return Refusal(ErrorCode.INVALID_REQUEST, f"key type {key_type} is not known")
    if key_type == SHARE and not _SHARE_KEY.match(key):
        return Refusal(ErrorCode.INVALID_REQUEST, f"{key!r} is not group:topic-id:partition")
    return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This broker has no coordinators.")


def _nobody(key: str, refusal: Refusal) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=refusal.code, error_message=refusal.message
    )
