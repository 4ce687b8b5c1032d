"""Produce (key 0), v3-v13: append, and answer when acks holds.

Versions 0-2 are advertised, as Apache Kafka does (older librdkafka loses features otherwise), and refused: their
record formats are gone. The first batch of a transaction in a partition waits until the coordinator has added the
partition (v12 and later) or verified that the client did (see `services.transactions.verifying`).
"""

import asyncio
from functools import partial
from typing import NamedTuple

from penstock.apis.context import Call
from penstock.apis.leader_hints import Hint, endpoints, hint
from penstock.apis.reply import Reply
from penstock.base.buffers import Buffer
from penstock.base.errors import ErrorCode, PeerError, Refusal
from penstock.core.transactions.transaction import ProducerIdAndEpoch
from penstock.records.batch import CODEC_MASK, HEADER_SIZE, TRANSACTIONAL, read_header
from penstock.records.compression import Codec
from penstock.services.partition import Appended, Partition
from penstock.services.topic_rules import AppendError
from penstock.services.transactions.verifying import Beginning, Verified, produce_refusal
from penstock.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

REQUEST = ProduceRequest
VERSIONS = (3, 13)
ADVERTISED_FROM = 0
CANCEL_ON_DISCONNECT = True

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1

_ATTRIBUTES_LOW_BYTE = 22

# Kafka makes an exception for clients that call themselves __admin_client; that proves nothing, so there is none here.
_INTERNAL = Refusal(
    ErrorCode.INVALID_TOPIC_EXCEPTION, "only the broker's coordinators write to internal topics"
)

ZSTD_SINCE = 7
HINTS_SINCE = 10  # of who leads
ABORTABLE_SINCE = 11  # clients know TRANSACTION_ABORTABLE
ADDING_SINCE = 12  # clients of transactions version 2: the partition's leader adds it to the transaction
TOPIC_IDS_SINCE = 13


class _Appends(NamedTuple):
    """What a request has come to so far."""

    response: ProduceResponse
    # Appended, and not yet safe.
    waits: "list[tuple[PartitionProduceResponse, asyncio.Future[ErrorCode]]]"
    # Not appended yet: their records take too long to look at on the loop.
    postponed: list[tuple[PartitionProduceResponse, Partition, memoryview]]
    verified: Verified
    # Whose answers are errors.
    refused: list[PartitionProduceResponse]


def handle(call: Call, request: ProduceRequest) -> ProduceResponse | Reply | None:
    room = call.services.flusher.room()
    beginning = _beginning_transactions(call, request)
    if room is not None or beginning:
        return Reply(_append_when_possible(call, request, room, beginning))
    appends = _append_all(call, request, {})
    if appends.postponed:
        return Reply(_append_postponed(call, request, appends))
    if appends.waits:
        return Reply(_when_safe(call, request.acks, appends), next_may_start=True)
    return _unless_none(call, request.acks, appends)


async def _append_when_possible(
    call: Call,
    request: ProduceRequest,
    room: "asyncio.Future[None] | None",
    beginning: dict[ProducerIdAndEpoch, list[Beginning]],
) -> ProduceResponse | None:
    if room is not None:
        await room
    verified: Verified = {}
    transactional_id = request.transactional_id
    for identity, batches in beginning.items():
        assert transactional_id is not None
        verifier = call.services.transactions.verifier
        verified |= await verifier.ask(transactional_id, identity, batches, adds=call.version >= ADDING_SINCE)
    return await _append_postponed(call, request, _append_all(call, request, verified))


# Transactions.


def _beginning_transactions(call: Call, request: ProduceRequest) -> dict[ProducerIdAndEpoch, list[Beginning]]:
    """By producer, the batches that would be the first of a transaction in their partitions."""
    found: dict[ProducerIdAndEpoch, list[Beginning]] = {}
    if request.transactional_id is None:
        return found
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            assert records is None or isinstance(records, memoryview)  # as the codec reads them
            if records is None or not _is_transactional(records):
                continue
            header = read_header(records)
            partition = _find(call, topic, data)
            if (
                isinstance(partition, ErrorCode)
                or not partition.is_leader
                or partition.is_internal
                or partition.producers.is_in_transaction(header.producer_id, header.producer_epoch)
            ):
                continue
            if call.version >= ADDING_SINCE or partition.topic_rules.verifies_transactions:
                identity = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
                found.setdefault(identity, []).append(Beginning(partition, header.base_sequence))
    return found


def _is_transactional(records: Buffer) -> bool:
    return len(records) >= HEADER_SIZE and bool(records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL)


# Appending.


async def _append_postponed(call: Call, request: ProduceRequest, appends: _Appends) -> ProduceResponse | None:
    world = call.services.world
    for answer, partition, records in appends.postponed:
        verification = appends.verified.get(partition)
        assert not isinstance(verification, ErrorCode)  # else it was refused
        check = partial(partition.topic_rules.check, records, now_ms=world.loop.now_ms(), off_loop=True)
        checked = await world.work.run(check)
        now_ms = world.loop.now_ms()
        outcome = partition.append(
            records,
            now_ms=now_ms,
            is_for_all=request.acks == ACKS_ALL,
            checked=checked,
            verification=verification,
        )
        assert outcome is not None
        _tell(answer, outcome, partition, request, appends)
    return await _when_safe(call, request.acks, appends)


async def _when_safe(call: Call, acks: int, appends: _Appends) -> ProduceResponse | None:
    for answer, future in appends.waits:
        code = await future
        if code is not ErrorCode.NONE:
            answer.error_code = code
            answer.base_offset = -1
            appends.refused.append(answer)
    return _unless_none(call, acks, appends)


def _unless_none(call: Call, acks: int, appends: _Appends) -> ProduceResponse | None:
    """With acks=0 there is nothing to send; an error can only be told by closing the connection."""
    response = appends.response
    if acks != ACKS_NONE:
        if appends.refused and call.version >= HINTS_SINCE:
            _add_hints(call, response)
        return response
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                raise PeerError(f"produce with acks=0 to {topic.name}-{partition.index} failed: {code.name}")
    return None


def _add_hints(call: Call, response: ProduceResponse) -> None:
    """Tell a client that came to the wrong broker who leads."""
    hints: list[Hint] = []
    for topic in response.responses:
        key = topic.topic_id if call.version >= TOPIC_IDS_SINCE else topic.name
        for partition in topic.partition_responses:
            hinted = hint(call, partition.error_code, key, partition.index)
            if hinted is not None:
                partition.current_leader = LeaderIdAndEpoch(
                    leader_id=hinted.leader.node_id, leader_epoch=hinted.leader_epoch
                )
                hints.append(hinted)
    if hints:
        response.node_endpoints = [
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints(hints)
        ]


def _append_all(call: Call, request: ProduceRequest, verified: Verified) -> _Appends:
    response = ProduceResponse(responses=[])
    appends = _Appends(response, [], [], verified, [])
    now_ms = call.services.world.loop.now_ms()
    for topic in request.topic_data:
        answers = [_append(call, request, topic, data, appends, now_ms) for data in topic.partition_data]
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    return appends


def _append(
    call: Call,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    appends: _Appends,
    now_ms: int,
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=data.index)
    partition = _find(call, topic, data)
    if isinstance(partition, ErrorCode):
        return _refuse(appends, answer, AppendError(partition))
    records = data.records
    assert records is None or isinstance(records, memoryview)  # as the codec reads them
    refusal = _request_refusal(call, request, records)
    if refusal is None and partition.is_internal:
        refusal = _INTERNAL
    if refusal is not None:
        return _refuse(appends, answer, AppendError(*refusal))
    verification = appends.verified.get(partition) if appends.verified else None
    if isinstance(verification, ErrorCode):
        refusal = produce_refusal(verification, knows_abortable=call.version >= ABORTABLE_SINCE)
        partition.note_refusal(records, refusal.code, now_ms=now_ms)
        return _refuse(appends, answer, AppendError(*refusal))
    outcome = partition.append(
        records, now_ms=now_ms, is_for_all=request.acks == ACKS_ALL, verification=verification
    )
    if outcome is None:
        assert records is not None
        appends.postponed.append((answer, partition, records))
    else:
        _tell(answer, outcome, partition, request, appends)
    return answer


def _find(call: Call, topic: TopicProduceData, data: PartitionProduceData) -> Partition | ErrorCode:
    """Whether this broker leads it or not: a replica remembers whom it turned away."""
    partitions = call.services.partitions
    if call.version >= TOPIC_IDS_SINCE:
        return partitions.find_replica_by_id(topic.topic_id, data.index)
    return partitions.find_replica(topic.name, data.index)


def _tell(
    answer: PartitionProduceResponse,
    outcome: Appended | AppendError,
    partition: Partition,
    request: ProduceRequest,
    appends: _Appends,
) -> None:
    """Put what came of a batch into its answer, and note if it still has to become safe."""
    if isinstance(outcome, AppendError):
        _refuse(appends, answer, outcome, partition.log.start_offset if outcome.reached_log else -1)
        return
    answer.base_offset, next_offset, answer.log_append_time_ms, answer.log_start_offset = outcome
    if partition.high_watermark < next_offset and (request.acks == ACKS_ALL or partition.flushes_every_batch):
        appends.waits.append((answer, partition.wait_for(next_offset, timeout_ms=request.timeout_ms)))


def _request_refusal(call: Call, request: ProduceRequest, records: memoryview | None) -> Refusal | None:
    if request.transactional_id is None and records is not None and _is_transactional(records):
        return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if call.version < ZSTD_SINCE and _is_zstd(records):
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
    if request.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS)
    return None


def _is_zstd(records: memoryview | None) -> bool:
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK == Codec.ZSTD
    )


def _refuse(
    appends: _Appends, answer: PartitionProduceResponse, refused: AppendError, log_start_offset: int = -1
) -> PartitionProduceResponse:
    appends.refused.append(answer)
    answer.error_code = refused.code
    answer.base_offset = -1
    answer.log_start_offset = log_start_offset
    answer.error_message = refused.message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=refused.message)
        for index in refused.bad_records
    ]
    return answer
