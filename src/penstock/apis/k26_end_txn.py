"""EndTxn (key 26), v0-v5: commits or aborts a transaction.

From v5 on the response has the producer id and epoch of the client's next transaction (transactions version 2). The
response is sent when the outcome is durable; the markers are written afterwards.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import TRANSACTIONAL_ID, WRITE
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.transactions.requests import EndTransaction
from penstock.core.transactions.transaction import (
    NO_PRODUCER_ID,
    VERSION_2,
    ProducerIdAndEpoch,
    is_exhausted,
)
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST = EndTxnRequest
VERSIONS = (0, 5)
NEEDS = (Need(WRITE, TRANSACTIONAL_ID, "transactional_id"),)
CANCEL_ON_DISCONNECT = True

FENCED_SINCE = 2  # clients know PRODUCER_FENCED
EPOCHS_SINCE = 5


def handle(call: Call, request: EndTxnRequest) -> EndTxnResponse | Reply:
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    if call.version >= EPOCHS_SINCE and is_exhausted(request.producer_epoch):
        return Reply(_end_with_another_producer_id(call, request))
    answer = _ask(call, request, spare_producer_id=NO_PRODUCER_ID)
    if isinstance(answer, asyncio.Future):
        return Reply(answer, partial(_response, call.version), next_may_start=True)
    if isinstance(answer, Awaitable):
        return Reply(_when_answered(call, answer))
    return _response(call.version, answer)


async def _end_with_another_producer_id(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    spare_producer_id = await call.services.transactions.producer_ids.take()
    if isinstance(spare_producer_id, Refusal):
        return EndTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = _ask(call, request, spare_producer_id=spare_producer_id)
    return _response(call.version, await answer if isinstance(answer, Awaitable) else answer)


async def _when_answered(call: Call, answer: Awaitable[ProducerIdAndEpoch | Refusal]) -> EndTxnResponse:
    return _response(call.version, await answer)


def _ask(
    call: Call, request: EndTxnRequest, *, spare_producer_id: int
) -> ProducerIdAndEpoch | Refusal | Awaitable[ProducerIdAndEpoch | Refusal]:
    wanted = EndTransaction(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_version=VERSION_2 if call.version >= EPOCHS_SINCE else 0,
        spare_producer_id=spare_producer_id,
    )
    return call.services.coordinators.transactions.ask_at_once(
        wanted.transactional_id, lambda shard, now_ms: shard.end(wanted, now_ms)
    )


def _response(version: int, answer: ProducerIdAndEpoch | Refusal) -> EndTxnResponse:
    if isinstance(answer, Refusal):
        fenced = answer.code is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE
        return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH if fenced else answer.code)
    if version < EPOCHS_SINCE:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=answer.producer_id, producer_epoch=answer.epoch)
