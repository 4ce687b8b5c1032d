"""InitProducerId (key 22), v0-v5: ids for idempotent producers, and epochs for transactional ones.

Version 6 (two-phase commit, KIP-939) only where `transaction.two.phase.commit.enable` is set.
"""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, IDEMPOTENT_WRITE, TRANSACTIONAL_ID, WRITE
from penstock.base.coordinator_settings import TRANSACTION_TWO_PHASE_COMMIT_ENABLE
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.transactions.requests import InitProducer
from penstock.core.transactions.transaction import NO_EPOCH, NO_IDENTITY, NO_PRODUCER_ID, ProducerIdAndEpoch
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest
VERSIONS = (0, 6)
NEEDS = (
    Need(WRITE, TRANSACTIONAL_ID, "transactional_id"),
    Need(IDEMPOTENT_WRITE, CLUSTER, unless="transactional_id"),
)

TWO_PHASE_SINCE = 6
ADVERTISED_ONLY_WITH = {TWO_PHASE_SINCE: TRANSACTION_TWO_PHASE_COMMIT_ENABLE}

FENCED_SINCE = 4  # the version with PRODUCER_FENCED, the error of a zombie producer


async def handle(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    settings = call.services.node.configs.broker
    if call.version >= TWO_PHASE_SINCE and not settings[TRANSACTION_TWO_PHASE_COMMIT_ENABLE]:
        return _refuse(call, ErrorCode.UNSUPPORTED_VERSION)
    current = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    is_half = NO_PRODUCER_ID in current and current != NO_IDENTITY
    if request.transactional_id == "" or is_half:
        return _refuse(call, ErrorCode.INVALID_REQUEST)
    producer_id = await call.services.transactions.producer_ids.take()
    if isinstance(producer_id, Refusal):
        return _refuse(call, producer_id.code)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return await _initialize(call, request, current, producer_id)


async def _initialize(
    call: Call, request: InitProducerIdRequest, current: ProducerIdAndEpoch, spare_producer_id: int
) -> InitProducerIdResponse:
    assert request.transactional_id is not None
    wanted = InitProducer(
        request.transactional_id,
        request.transaction_timeout_ms,
        spare_producer_id,
        current=None if current == NO_IDENTITY else current,
        two_phase=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
    answer = await call.services.coordinators.transactions.ask(
        wanted.transactional_id, lambda shard, now_ms: shard.initialize(wanted, now_ms)
    )
    if isinstance(answer, Refusal):
        return _refuse(call, answer.code)
    return InitProducerIdResponse(
        producer_id=answer.identity.producer_id,
        producer_epoch=answer.identity.epoch,
        ongoing_txn_producer_id=answer.ongoing.producer_id,
        ongoing_txn_producer_epoch=answer.ongoing.epoch,
    )


def _refuse(call: Call, code: ErrorCode) -> InitProducerIdResponse:
    if code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
