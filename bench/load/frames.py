"""Produce requests as bytes: made once, sent many times, the same for both brokers."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from penstock.records.builder import build_batch
from penstock.records.record import Record
from penstock.schema.codec import encode
from penstock.schema.words import Message
from penstock.wire.headers import RequestHeader, frame_request, frame_response
from penstock.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.world.disk import Buffer

VERSION = 9
ACKS_ALL = -1
TIMEOUT_MS = 60_000
CORRELATION_ID = 7
WRONG = 0x0101  # both bytes of an error code

Frame = tuple[Buffer, ...]


class Answer(NamedTuple):
    """What a good answer looks like from outside: its size, and where its error code is."""

    size: int
    error_positions: tuple[int, ...]


def batch_of(*, records: int, value_bytes: int) -> bytes:
    """One uncompressed batch with values of bytes that do not matter."""
    now_ms = int(time.time() * 1000)
    value = bytes(number % 251 for number in range(value_bytes))
    return build_batch([Record(offset, now_ms, None, value, ()) for offset in range(records)])


def batch_of_size(size: int) -> bytes:
    """One batch of about `size` bytes, in records of about 1 KiB."""
    count = max(1, size // 1024)
    return batch_of(records=count, value_bytes=(size - 61) // count - 12)


def produce_frames(topic: str, partitions: Sequence[int], batch: bytes) -> list[Frame]:
    """For each partition, a request that appends `batch` to it. All share the batch's memory."""
    return [_produce_frame(topic, partition, batch) for partition in partitions]


def _produce_frame(topic: str, partition: int, batch: bytes) -> Frame:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[data])
    header = RequestHeader(ProduceRequest.API_KEY, VERSION, CORRELATION_ID, "bench")
    return tuple(frame_request(header, encode(request, VERSION)))


def good_answer(topic: str) -> Answer:
    """Answers to requests for `topic` without an error all have one size: offsets take eight bytes each."""
    return answer_of(_response(topic, 0), _response(topic, WRONG), version=VERSION)


def _response(topic: str, error_code: int) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=error_code, base_offset=0, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[partition])])


def answer_of(good: Message, bad: Message, *, version: int) -> Answer:
    """How to tell the two apart: they differ in nothing but their error code, which is `WRONG` in the bad one."""
    right, wrong = _framed(good, version), _framed(bad, version)
    return Answer(len(right), tuple(index for index in range(len(right)) if right[index] != wrong[index]))


def _framed(response: Message, version: int) -> bytes:
    chunks = frame_response(
        api_key=response.API_KEY,
        api_version=version,
        correlation_id=CORRELATION_ID,
        chunks=encode(response, version),
    )
    return b"".join(chunks)
