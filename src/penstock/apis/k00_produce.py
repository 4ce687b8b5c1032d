"""Produce (key 0), v3-v13: append, and answer when acks holds.

Versions 0-2 are advertised, as Apache Kafka does (older librdkafka loses features otherwise), and refused: their
record formats are gone. Leaves out transactions: a transactional batch is refused until there is a coordinator.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from penstock.base.errors import ErrorCode, PeerError, Refusal
from penstock.records.batch import CODEC_MASK, HEADER_SIZE, BatchHeader
from penstock.records.compression import Codec
from penstock.services.context import Call, Late
from penstock.services.intake import Refused
from penstock.services.partition import Partition
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


def handle(
    call: Call, request: ProduceRequest
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | Late | None:
    room = call.services.flusher.room()
    laborious = _laborious(call, request)
    if room is not None or laborious:
        return _append_when_possible(call, request, room, laborious)
    response, waits = _append_all(call, request, {})
    if waits:
        return Late(_when_safe(request.acks, response, waits))
    return _unless_none(request.acks, response)


async def _append_when_possible(
    call: Call, request: ProduceRequest, room: "asyncio.Future[None] | None", laborious: "list[_Laborious]"
) -> ProduceResponse | None:
    """Wait for room in the queue of syncs, and have records looked at where they cannot hold up the loop."""
    world = call.services.world
    checked: _Checked = {}
    for partition, records in laborious:
        check = partial(partition.intake.check, records, now_ms=world.loop.now_ms())
        checked[id(records)] = await world.work.run(check)
    if room is not None:
        await room
    response, waits = _append_all(call, request, checked)
    return await _when_safe(request.acks, response, waits)


_Laborious = tuple[Partition, memoryview]
_Checked = dict[int, "tuple[BatchHeader, memoryview] | Refused"]


def _laborious(call: Call, request: ProduceRequest) -> list[_Laborious]:
    """The batches whose check would take too long here: topics that open records, unless there are few."""
    if not call.services.partitions.some_open_records:
        return []
    found = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            partition = _find(call, topic, data.index)
            records = data.records
            if (
                isinstance(partition, Partition)
                and isinstance(records, memoryview)
                and partition.intake.is_laborious(records)
            ):
                found.append((partition, records))
    return found


def _find(call: Call, topic: TopicProduceData, index: int) -> Partition | ErrorCode:
    partitions = call.services.partitions
    if call.version >= TOPIC_IDS_SINCE:
        return partitions.find_by_id(topic.topic_id, index)
    return partitions.find(topic.name, index)


async def _when_safe(acks: int, response: ProduceResponse, waits: "list[_Wait]") -> ProduceResponse | None:
    for answer, future in waits:
        code = await future
        if code is not ErrorCode.NONE:
            answer.error_code = code
            answer.base_offset = -1
    return _unless_none(acks, response)


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


_Wait = tuple[PartitionProduceResponse, "asyncio.Future[ErrorCode]"]


def _append_all(
    call: Call, request: ProduceRequest, checked: _Checked
) -> tuple[ProduceResponse, list[_Wait]]:
    waits: list[_Wait] = []
    now_ms = call.services.world.loop.now_ms()
    topics = []
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            partition = _find(call, topic, data.index)
            answers.append(
                _refused_early(data.index, partition)
                if isinstance(partition, ErrorCode)
                else _append(call, request, partition, data, waits, checked, now_ms)
            )
        topics.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    return ProduceResponse(responses=topics), waits


def _append(
    call: Call,
    request: ProduceRequest,
    partition: Partition,
    data: PartitionProduceData,
    waits: list[_Wait],
    checked: _Checked,
    now_ms: int,
) -> PartitionProduceResponse:
    records = data.records
    assert records is None or isinstance(records, memoryview)  # as the codec reads them
    refusal = _request_refusal(call, request, records, partition)
    if refusal is not None:
        return _refused_early(data.index, refusal.code, refusal.message)
    outcome = partition.append(records, now_ms=now_ms, checked=checked.get(id(records)))
    if isinstance(outcome, Refused):
        return _refused(data.index, outcome, partition.log.start_offset)
    base_offset, next_offset, log_append_time_ms, log_start_offset = outcome
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    if partition.high_watermark < next_offset and (request.acks == ACKS_ALL or partition.flushes_every_batch):
        waits.append((answer, partition.wait_for(next_offset, timeout_ms=request.timeout_ms)))
    return answer


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


def _refused(index: int, refused: Refused, log_start_offset: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=refused.code,
        base_offset=-1,
        log_start_offset=log_start_offset if refused.reached_log else -1,
        error_message=refused.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=refused.message)
            for index in refused.bad_records
        ],
    )


def _refused_early(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return _refused(index, Refused(code, message, reached_log=False), -1)
