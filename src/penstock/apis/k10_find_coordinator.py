"""FindCoordinator (key 10), v0-v6: the broker that coordinates a group or a transactional id.

The internal topic is created with the first request. Leaves out share groups, which have no coordinator yet.
"""

import re

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import DESCRIBE, GROUP, TRANSACTIONAL_ID
from penstock.base.errors import ErrorCode, Refusal
from penstock.cluster.metadata import BrokerAddress
from penstock.services.coordinators.coordinator import Coordinator
from penstock.wire.messages.find_coordinator import (
    Coordinator as Found,
)
from penstock.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

REQUEST = FindCoordinatorRequest
VERSIONS = (0, 6)

GROUP_KEY = 0
TRANSACTION_KEY = 1
SHARE_KEY = 2

NEEDS = (
    Need(DESCRIBE, GROUP, "key", where=("key_type", GROUP_KEY)),
    Need(DESCRIBE, GROUP, "coordinator_keys", where=("key_type", GROUP_KEY)),
    Need(DESCRIBE, TRANSACTIONAL_ID, "key", where=("key_type", TRANSACTION_KEY)),
    Need(DESCRIBE, TRANSACTIONAL_ID, "coordinator_keys", where=("key_type", TRANSACTION_KEY)),
)

SEVERAL_KEYS_SINCE = 4

# The key of a share group: group, topic id, partition.
_SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]+\Z")


async def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version >= SEVERAL_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[await _find(call, request.key_type, key) for key in request.coordinator_keys]
        )
    found = await _find(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(call: Call, key_type: int, key: str) -> Found:
    found = await _address(call, key_type, key)
    if isinstance(found, Refusal):
        return Found(
            key=key, node_id=-1, host="", port=-1, error_code=found.code, error_message=found.message
        )
    return Found(key=key, node_id=found.node_id, host=found.host, port=found.port)


async def _address(call: Call, key_type: int, key: str) -> BrokerAddress | Refusal:
    coordinators = call.services.coordinators
    if key_type == GROUP_KEY:
        return await _leader(call, coordinators.groups, key)
    if key_type == TRANSACTION_KEY:
        return await _leader(call, coordinators.transactions, key)
    if key_type != SHARE_KEY:
        return Refusal(ErrorCode.INVALID_REQUEST, f"key type {key_type} is not known")
    if not _SHARE_KEY.match(key):
        return Refusal(ErrorCode.INVALID_REQUEST, f"{key!r} is not group:topic-id:partition")
    return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This broker has no coordinator of share groups.")


async def _leader(call: Call, coordinator: Coordinator, key: str) -> BrokerAddress | Refusal:  # type: ignore[type-arg]
    topic = await coordinator.topic()
    if isinstance(topic, Refusal):
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, topic.message)
    index = coordinator.index_for(key)
    broker = (
        None if index is None else call.services.cluster.image.brokers.get(topic.partitions[index].leader)
    )
    address = None if broker is None else broker.address(call.client.listener)
    return address or Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
