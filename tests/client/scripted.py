"""Brokers that say what a test wants them to say, over real connections and in the real protocol."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from penstock.client.addresses import Address
from penstock.client.client import Client, ClientSettings
from penstock.client.connection import ConnectionLimits
from penstock.client.retries import Backoff
from penstock.schema.codec import decode, encode
from penstock.schema.words import Message
from penstock.wire.apis import APIS
from penstock.wire.headers import RequestHeader, frame_response
from penstock.wire.messages import request_type
from penstock.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.world.real_loop import RealLoop
from tests.request_headers import read_request_header

# A message to answer, bytes to send instead of a frame, None to stay silent, or HANG_UP.
Answer = Message | bytes | str | None
Script = Callable[[RequestHeader, Message], Answer | Awaitable[Answer]]
HANG_UP = "hang up"


class ScriptedBroker:
    """Answers ApiVersions by itself with all we know, and everything else as its script says."""

    def __init__(self, script: Script, *, versions: dict[int, tuple[int, int]] | None = None) -> None:
        self.asked: list[tuple[RequestHeader, Message]] = []
        self.connection_count = 0
        self._script = script
        self._versions = versions or {key: api.versions for key, api in APIS.items() if api.versions}
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = Address(host, port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for handler in list(self._handlers):
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connection_count += 1
        try:
            while size := await reader.readexactly(4):
                frame = await reader.readexactly(int.from_bytes(size, "big"))
                if not await self._answer(frame, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()
            self._handlers.discard(task)

    async def _answer(self, frame: bytes, writer: asyncio.StreamWriter) -> bool:
        header, position = read_request_header(frame)
        first, last = self._versions[header.api_key]
        version = header.api_version
        if header.api_key == ApiVersionsRequest.API_KEY:
            known = first <= version <= last
            answer: Answer = self._api_versions(0 if known else 35)
            version = version if known else 0
        else:
            assert first <= version <= last, f"asked {header} of a broker that knows {first}-{last}"
            request = decode(request_type(header.api_key), version, frame, position)
            self.asked.append((header, request))
            said = self._script(header, request)
            answer = await said if isinstance(said, Awaitable) else said
        if answer == HANG_UP:
            return False
        if isinstance(answer, bytes):
            writer.write(answer)
        elif isinstance(answer, Message):
            chunks = encode(answer, version)
            writer.writelines(
                frame_response(
                    api_key=header.api_key,
                    api_version=version,
                    correlation_id=header.correlation_id,
                    chunks=chunks,
                )
            )
        return True

    def _api_versions(self, error_code: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            error_code=error_code,
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in self._versions.items()
            ],
        )


class NoChance:
    """Entropy without surprises."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def random_below(self, limit: int) -> int:
        return limit // 2


def new_client(
    *brokers: ScriptedBroker, patience_ms: int = 5_000, limits: ConnectionLimits | None = None
) -> Client:
    settings = ClientSettings(
        limits=limits or ConnectionLimits(),
        backoff=Backoff(first_ms=1, ceiling_ms=5),
        patience_ms=patience_ms,
    )
    addresses = ",".join(str(broker.address) for broker in brokers)
    return Client(RealLoop(), addresses, entropy=NoChance(), settings=settings)


def metadata(
    brokers: Sequence[ScriptedBroker],
    *,
    leaders: Sequence[int] = (),
    topic: str = "t",
    topic_id: bytes = b"i" * 16,
    leader_epoch: int = 0,
    controller_id: int = 0,
) -> MetadataResponse:
    """Node n is the n-th broker; partition n of the topic is led by the n-th of `leaders`."""
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=broker.address.host, port=broker.address.port)
            for node_id, broker in enumerate(brokers)
        ],
        controller_id=controller_id,
        topics=[
            MetadataResponseTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=partition,
                        leader_id=leader,
                        leader_epoch=leader_epoch,
                        replica_nodes=[leader],
                        isr_nodes=[leader],
                    )
                    for partition, leader in enumerate(leaders)
                ],
            )
        ]
        if leaders
        else [],
    )
