"""Produce (key 0), v3-v13: append, and answer when acks holds.

Versions 0-2 are advertised, as Apache Kafka does (older librdkafka loses features otherwise), and refused: their
record formats are gone. Leaves out transactions: a transactional batch is refused until there is a coordinator.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, NamedTuple

from penstock.base.errors import ErrorCode, PeerError, Refusal
from penstock.records.batch import CODEC_MASK, HEADER_SIZE
from penstock.records.compression import Codec
from penstock.services.context import Call, Late
from penstock.services.intake import Refused
from penstock.services.partition import Appended, Partition
from penstock.wire.messages.produce import (
    BatchIndexAndErrorMessage,
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
WAITS = True

ACKS_ALL = -1
ACKS_NONE = 0
ACKS_LEADER = 1

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13


class _Appends(NamedTuple):
    """What a request has come to so far."""

    response: ProduceResponse
    # Appended, and not yet safe.
    waits: "list[tuple[PartitionProduceResponse, asyncio.Future[ErrorCode]]]"
    # Not appended yet: their records take too long to look at on the loop.
    postponed: list[tuple[PartitionProduceResponse, Partition, memoryview]]


def handle(
    call: Call, request: ProduceRequest
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | Late | None:
    room = call.services.flusher.room()
    if room is not None:
        return _append_when_there_is_room(call, request, room)
    appends = _append_all(call, request)
    if appends.postponed:
        return _append_postponed(call, request, appends)
    if appends.waits:
        return Late(_when_safe(request.acks, appends))
    return _unless_none(request.acks, appends.response)


async def _append_when_there_is_room(
    call: Call, request: ProduceRequest, room: "asyncio.Future[None]"
) -> ProduceResponse | None:
    await room
    return await _append_postponed(call, request, _append_all(call, request))


async def _append_postponed(call: Call, request: ProduceRequest, appends: _Appends) -> ProduceResponse | None:
    world = call.services.world
    for answer, partition, records in appends.postponed:
        check = partial(partition.intake.check, records, now_ms=world.loop.now_ms(), off_loop=True)
        outcome = partition.append(records, now_ms=world.loop.now_ms(), checked=await world.work.run(check))
        assert outcome is not None
        _tell(answer, outcome, partition, request, appends)
    return await _when_safe(request.acks, appends)


async def _when_safe(acks: int, appends: _Appends) -> ProduceResponse | None:
    for answer, future in appends.waits:
        code = await future
        if code is not ErrorCode.NONE:
            answer.error_code = code
            answer.base_offset = -1
    return _unless_none(acks, appends.response)


def _unless_none(acks: int, response: ProduceResponse) -> ProduceResponse | None:
    """With acks=0 there is nothing to send; an error can only be told by closing the connection."""
    if acks != ACKS_NONE:
        return response
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                raise PeerError(f"produce with acks=0 to {topic.name}-{partition.index} failed: {code.name}")
    return None


def _append_all(call: Call, request: ProduceRequest) -> _Appends:
    response = ProduceResponse(responses=[])
    appends = _Appends(response, [], [])
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
    partitions = call.services.partitions
    partition = (
        partitions.find_by_id(topic.topic_id, data.index)
        if call.version >= TOPIC_IDS_SINCE
        else partitions.find(topic.name, data.index)
    )
    if isinstance(partition, ErrorCode):
        return _refuse(answer, Refused(partition))
    records = data.records
    assert records is None or isinstance(records, memoryview)  # as the codec reads them
    refusal = _request_refusal(call, request, records, partition)
    if refusal is not None:
        return _refuse(answer, Refused(*refusal))
    outcome = partition.append(records, now_ms=now_ms)
    if outcome is None:
        assert records is not None
        appends.postponed.append((answer, partition, records))
    else:
        _tell(answer, outcome, partition, request, appends)
    return answer


def _tell(
    answer: PartitionProduceResponse,
    outcome: Appended | Refused,
    partition: Partition,
    request: ProduceRequest,
    appends: _Appends,
) -> None:
    """Put what came of a batch into its answer, and note if it still has to become safe."""
    if isinstance(outcome, Refused):
        _refuse(answer, outcome, partition.log.start_offset if outcome.reached_log else -1)
        return
    answer.base_offset, next_offset, answer.log_append_time_ms, answer.log_start_offset = outcome
    if partition.high_watermark < next_offset and (request.acks == ACKS_ALL or partition.flushes_every_batch):
        appends.waits.append((answer, partition.wait_for(next_offset, timeout_ms=request.timeout_ms)))


def _request_refusal(
    call: Call, request: ProduceRequest, records: memoryview | None, partition: Partition
) -> Refusal | None:
    if call.version < ZSTD_SINCE and _is_zstd(records):
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later")
    acks = request.acks
    if acks == ACKS_ALL:
        return partition.in_sync_refusal()
    if acks not in (ACKS_NONE, ACKS_LEADER):
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS)
    return None


def _is_zstd(records: memoryview | None) -> bool:
    return (
        records is not None and len(records) >= HEADER_SIZE and records[22] & CODEC_MASK == Codec.ZSTD
    )  # the second byte of the attributes


def _refuse(
    answer: PartitionProduceResponse, refused: Refused, log_start_offset: int = -1
) -> PartitionProduceResponse:
    answer.error_code = refused.code
    answer.base_offset = -1
    answer.log_start_offset = log_start_offset
    answer.error_message = refused.message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=refused.message)
        for index in refused.bad_records
    ]
    return answer
