"""ListTransactions (key 66), v0-v2: the transactional ids of this broker, by state, producer id, duration and name.

Patterns are RE2, and match whole ids. Transactions are filtered in slices of time: there may be very many.
"""

from penstock.apis.context import Call
from penstock.apis.needs import ListedOnly
from penstock.apis.rights import DESCRIBE, TRANSACTIONAL_ID
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.regex import ExpressionError, compile_expression
from penstock.core.transactions.requests import ListFilter
from penstock.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

REQUEST = ListTransactionsRequest
VERSIONS = (0, 2)
NEEDS = (ListedOnly(DESCRIBE, TRANSACTIONAL_ID),)
CANCEL_ON_DISCONNECT = True
LOW_PRIORITY = True


async def handle(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    pattern = request.transactional_id_pattern
    try:
        expression = compile_expression(pattern) if pattern else None
    except ExpressionError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    wanted = ListFilter(
        states=tuple(request.state_filters),
        producer_ids=tuple(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
        expression=expression,
    )
    answer = await call.services.coordinators.transactions.ask_all(
        lambda shard, now_ms: shard.list(wanted, now_ms)
    )
    if isinstance(answer, Refusal):
        return ListTransactionsResponse(error_code=answer.code)
    unknown = dict.fromkeys(label for listed in answer for label in listed.unknown_states)
    return ListTransactionsResponse(
        unknown_state_filters=list(unknown),
        transaction_states=[
            TransactionState(
                transactional_id=known.transactional_id,
                producer_id=known.producer_id,
                transaction_state=known.state.label,
            )
            for listed in answer
            for known in listed.transactions
        ],
    )
