"""The smallest Kafka client: one blocking socket, one request at a time, any message at any version."""

import importlib
import socket
from types import TracebackType
from typing import Any

from penstock.records.builder import build_batch
from penstock.records.record import Record
from penstock.schema.codec import decode, encode
from penstock.wire.headers import RequestHeader, frame_request, read_response_header
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TIMEOUT_S = 20


class RawClient:
    """Talks to `address`, "HOST:PORT"."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._correlation_id = 0
        self.client_id = "raw"

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def ask(self, request: Any, version: int, response: type[Any] | None = None) -> Any:
        """Send `request` and return the answer, as the response that belongs to it."""
        self.send(request, version)
        return self.receive(request.API_KEY, version, response or response_of(type(request)))

    def send(self, request: Any, version: int) -> int:
        self._correlation_id += 1
        header = RequestHeader(request.API_KEY, version, self._correlation_id, self.client_id)
        self.socket.sendall(b"".join(frame_request(header, encode(request, version))))
        return self._correlation_id

    def receive(self, api_key: int, version: int, response: type[Any]) -> Any:
        frame = self.receive_frame()
        correlation_id, position = read_response_header(api_key, version, frame)
        self.last_correlation_id = correlation_id
        return decode(response, version, frame, position)

    def receive_frame(self) -> bytes:
        """One frame; ConnectionError if the broker closes the connection instead."""
        size = int.from_bytes(self._receive_exactly(4), "big")
        return self._receive_exactly(size)

    def is_closed_by_broker(self) -> bool:
        """Wait for the end of the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _receive_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return bytes(data)

    # The requests that most tests need.

    def create_topic(self, name: str, *, partitions: int = 1, **configs: str) -> None:
        """Configs with '_' for '.': `create_topic("t", retention_ms="1000")`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()],
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message

    def produce(self, topic: str, batch: bytes, *, partition: int = 0, acks: int = -1) -> Any:
        """The partition's answer to one batch."""
        answer = self.ask(produce_request(topic, batch, partition=partition, acks=acks), 12, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
    ) -> Any:
        """The partition's answer to a fetch."""
        request = fetch_request(
            topic,
            offset,
            partition=partition,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
        )
        return self.ask(request, 12, FetchResponse).responses[0].partitions[0]


def response_of(request: type[Any]) -> type[Any]:
    """MetadataResponse for MetadataRequest."""
    module = importlib.import_module(request.__module__)
    response: type[Any] = getattr(module, request.__name__.removesuffix("Request") + "Response")
    return response


def produce_request(topic: str, batch: bytes | None, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


def batch_of(*values: bytes, timestamp: int = 1_000, **fields: Any) -> bytes:
    """A batch with one record per value."""
    records = [
        Record(offset=i, timestamp=timestamp, key=None, value=value, headers=())
        for i, value in enumerate(values)
    ]
    return build_batch(records, **fields)
