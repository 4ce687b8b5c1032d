"""AlterPartition (key 56), v2-v3: a leader asks the controller for other in-sync sets. Between brokers only."""

from penstock.apis.context import Call
from penstock.controller.alter_partition import alter_partitions
from penstock.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

REQUEST = AlterPartitionRequest
VERSIONS = (2, 3)
BROKERS_ONLY = True


async def handle(call: Call, request: AlterPartitionRequest) -> AlterPartitionResponse:
    return await alter_partitions(call.services.controller, call.services.image, request)
