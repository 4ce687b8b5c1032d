"""AddOffsetsToTxn (key 25), v0-v4: adds a group's offsets to a transaction.

That adds the partition of __consumer_offsets that holds the group.
"""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import GROUP, READ, TRANSACTIONAL_ID, WRITE
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import CONSUMER_OFFSETS, TopicPartition
from penstock.core.transactions.requests import AddPartitions
from penstock.core.transactions.transaction import ProducerIdAndEpoch
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

REQUEST = AddOffsetsToTxnRequest
VERSIONS = (0, 4)
NEEDS = (
    Need(WRITE, TRANSACTIONAL_ID, "transactional_id"),
    Need(READ, GROUP, "group_id"),
)
CANCEL_ON_DISCONNECT = True

FENCED_SINCE = 2  # clients know PRODUCER_FENCED


async def handle(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    code = await _add(call, request)
    if code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)


async def _add(call: Call, request: AddOffsetsToTxnRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    coordinators = call.services.coordinators
    topic = await coordinators.groups.topic()
    if isinstance(topic, Refusal):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    index = coordinators.groups.index_for(request.group_id)
    if index is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    wanted = AddPartitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        frozenset({TopicPartition(CONSUMER_OFFSETS, index)}),
    )
    answer = await coordinators.transactions.ask(
        wanted.transactional_id, lambda shard, now_ms: shard.add_partitions(wanted, now_ms)
    )
    return answer.code if isinstance(answer, Refusal) else ErrorCode.NONE
