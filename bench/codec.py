"""How long encoding and decoding the hottest messages takes, beside kio.

    PYTHONPATH=src python bench/codec.py

Both are given bytes and give back what a handler would use; kio's decoder is native code. kio has no way of
leaving records uncopied when it encodes, so small records are used where it takes part.
"""

import io
import timeit
from collections.abc import Callable
from importlib import import_module

from kio.serial import entity_reader, entity_writer

from penstock.schema.codec import decode, encode
from penstock.schema.words import Message
from penstock.wire.messages import fetch, produce

RECORDS = bytes(range(100))


def produce_request() -> Message:
    partition = produce.PartitionProduceData(index=3, records=RECORDS)
    topic = produce.TopicProduceData(name="orders", partition_data=[partition])
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> Message:
    partition = produce.PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)
    topic = produce.TopicProduceResponse(name="orders", partition_responses=[partition])
    return produce.ProduceResponse(responses=[topic])


def fetch_request() -> Message:
    partitions = [
        fetch.FetchPartition(partition=index, fetch_offset=123_456, partition_max_bytes=1 << 20)
        for index in range(6)
    ]
    topic = fetch.FetchTopic(topic="orders", partitions=partitions)
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


def fetch_response() -> Message:
    partitions = [
        fetch.PartitionData(
            partition_index=index,
            high_watermark=123_456,
            last_stable_offset=123_456,
            log_start_offset=0,
            aborted_transactions=None,
            records=memoryview(RECORDS),
        )
        for index in range(6)
    ]
    topic = fetch.FetchableTopicResponse(topic="orders", partitions=partitions)
    return fetch.FetchResponse(responses=[topic])


def microseconds(call: Callable[[], object]) -> float:
    """The best of several runs: what the code costs when nothing else disturbs it."""
    repeat = 5_000
    return min(timeit.repeat(call, number=repeat, repeat=7)) / repeat * 1e6


def compare(name: str, message: Message, version: int) -> None:
    api, _, kind = name.partition(" ")
    shape = getattr(import_module(f"kio.schema.{api}.v{version}.{kind}"), type(message).__name__)
    read, write = entity_reader(shape), entity_writer(shape)
    encoded = b"".join(encode(message, version))
    view = memoryview(encoded)
    theirs, _ = read(encoded, 0)

    def write_theirs() -> bytes:
        with io.BytesIO() as buffer:
            write(buffer, theirs)
            return buffer.getvalue()

    assert write_theirs() == encoded
    for action, ours, kio in (
        ("decode", lambda: decode(type(message), version, view), lambda: read(encoded, 0)),
        ("encode", lambda: encode(message, version), write_theirs),
    ):
        print(f"{name:18} v{version:<4} {action}  {microseconds(ours):8.2f} {microseconds(kio):8.2f}")


def main() -> None:
    print(f"{'microseconds':31} {'penstock':>9} {'kio':>8}")
    compare("produce request", produce_request(), 9)
    compare("produce request", produce_request(), 12)
    compare("produce response", produce_response(), 9)
    compare("fetch request", fetch_request(), 12)
    compare("fetch response", fetch_response(), 12)


if __name__ == "__main__":
    main()
