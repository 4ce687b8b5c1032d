"""Private messages: declared in the same words as Kafka's, beside them, and outside of Kafka's key space."""

import importlib
from typing import Any

import pytest

from penstock.base.errors import PeerError
from penstock.schema.codec import decode, encode
from penstock.schema.words import Message
from penstock.wire.apis import APIS
from penstock.wire.headers import (
    RequestHeader,
    frame_request,
    frame_response,
    is_known,
    read_response_header,
)
from penstock.wire.private import PRIVATE_APIS, api_name
from penstock.wire.private.broker_handshake import (
    BrokerApiVersion,
    BrokerHandshakeRequest,
    BrokerHandshakeResponse,
)
from penstock.wire.private.log_ends import (
    LogEndsPartition,
    LogEndsPartitionResult,
    LogEndsRequest,
    LogEndsResponse,
    LogEndsTopic,
    LogEndsTopicResult,
)
from penstock.wire.private.partition_loads import (
    PartitionLoad,
    PartitionLoadsRequest,
    PartitionLoadsResponse,
    PartitionLoadsTopic,
)
from penstock.wire.private.release_fetch import ReleaseFetchRequest, ReleaseFetchResponse
from tests.request_headers import read_request_header

TOPIC_ID = bytes(range(16))
MESSAGES: list[Message] = [
    BrokerHandshakeRequest(cluster_id="c", node_id=1, broker_epoch=1 << 40, nonce=b"n" * 32),
    BrokerHandshakeRequest(proof=b"p" * 32),
    BrokerHandshakeResponse(node_id=1, broker_epoch=1 << 40, nonce=b"n" * 32),
    BrokerHandshakeResponse(
        proof=b"p" * 32, api_versions=[BrokerApiVersion(api_key=10001, min_version=0, max_version=3)]
    ),
    LogEndsRequest(
        topics=[
            LogEndsTopic(topic_id=TOPIC_ID, partitions=[LogEndsPartition(partition_index=3, leader_epoch=7)])
        ]
    ),
    LogEndsResponse(
        topics=[
            LogEndsTopicResult(
                topic_id=TOPIC_ID,
                partitions=[
                    LogEndsPartitionResult(partition_index=3, last_epoch=6, end_offset=1 << 40),
                    LogEndsPartitionResult(partition_index=4, error_code=74),
                ],
            )
        ]
    ),
    PartitionLoadsRequest(),
    PartitionLoadsResponse(
        topics=[
            PartitionLoadsTopic(
                name="t", partitions=[PartitionLoad(partition_index=0, size_bytes=1 << 40, sent_bytes=9)]
            )
        ]
    ),
    ReleaseFetchRequest(),
    ReleaseFetchResponse(),
]


def test_keys_are_outside_of_kafkas_and_names_are_not_kafkas() -> None:
    assert min(PRIVATE_APIS) >= 10000 > max(APIS)
    assert not {api.name for api in PRIVATE_APIS.values()} & {api.name for api in APIS.values()}
    for key, api in PRIVATE_APIS.items():
        assert not is_known(key, 0), "or it would be answered to clients"
        assert api_name(key) == api.name
        module: Any = importlib.import_module(f"penstock.wire.private.{api.module}")
        for shape in (getattr(module, f"{api.name}Request"), getattr(module, f"{api.name}Response")):
            assert (
                key,
                api.versions,
                api.flexible_since,
            ) == (shape.API_KEY, shape.VERSIONS, shape.FLEXIBLE_SINCE)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_written_is_read_and_what_ends_early_is_refused(message: Message) -> None:
    data = b"".join(encode(message, 0))
    assert decode(type(message), 0, data, 0) == message
    for size in range(len(data)):
        with pytest.raises(PeerError):
            decode(type(message), 0, data[:size], 0)


@pytest.mark.parametrize("key", PRIVATE_APIS)
def test_headers_are_flexible(key: int) -> None:
    header = RequestHeader(key, 0, 7, "client")
    framed = b"".join(frame_request(header, [b"body"]))
    found, position = read_request_header(framed[4:])
    assert (found, framed[4:][position:]) == (header, b"body")
    answer = b"".join(frame_response(api_key=key, api_version=0, correlation_id=7, chunks=[b"body"]))
    correlation_id, position = read_response_header(key, 0, answer[4:])
    assert (correlation_id, answer[4:][position:]) == (7, b"body")
