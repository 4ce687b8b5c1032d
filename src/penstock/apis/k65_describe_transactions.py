"""DescribeTransactions (key 65), v0: the state of transactional ids, and the partitions of open transactions."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import DESCRIBE, TRANSACTIONAL_ID
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.transactions.transaction import by_topic
from penstock.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

REQUEST = DescribeTransactionsRequest
VERSIONS = (0, 0)
NEEDS = (Need(DESCRIBE, TRANSACTIONAL_ID, "transactional_ids"),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True


async def handle(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    transactional_ids = dict.fromkeys(request.transactional_ids)
    return DescribeTransactionsResponse(
        transaction_states=[await _describe(call, name) for name in transactional_ids]
    )


async def _describe(call: Call, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(error_code=ErrorCode.INVALID_REQUEST, transactional_id=transactional_id)
    known = await call.services.coordinators.transactions.ask(
        transactional_id, lambda shard, _: shard.describe(transactional_id)
    )
    if isinstance(known, Refusal):
        return TransactionState(error_code=known.code, transactional_id=transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(known.partitions).items()
        ],
    )
