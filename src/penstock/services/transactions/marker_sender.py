"""Sends transaction markers to the leaders of partitions on other brokers (WriteTxnMarkers)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from penstock.base.errors import ErrorCode
from penstock.cluster.peer_requests.markers import RemoteMarker, write_markers
from penstock.cluster.peers import Peers
from penstock.services.transactions.request_batcher import RequestBatcher
from penstock.world import World

_PARTITIONS_MAX: Final = 1000
_REQUESTS_MAX: Final = 5


class MarkerSender:
    """Sends WriteTxnMarkers to other brokers."""

    def __init__(self, world: World, peers: Peers) -> None:
        self._peers = peers
        self._batcher: RequestBatcher[RemoteMarker, ErrorCode] = RequestBatcher(
            world,
            self._ask,
            key=lambda remote: (remote.marker.producer_id, remote.where),
            unanswered=ErrorCode.NETWORK_EXCEPTION,
            items_max=_PARTITIONS_MAX,
            requests_max=_REQUESTS_MAX,
        )

    def write(self, leader: int, remote: RemoteMarker) -> "asyncio.Future[ErrorCode]":
        """A future for NONE once the marker is replicated; NETWORK_EXCEPTION if the leader has not answered."""
        return self._batcher.put(leader, remote)

    async def stop(self) -> None:
        await self._batcher.stop()

    async def _ask(self, leader: int, remotes: Sequence[RemoteMarker]) -> list[ErrorCode]:
        return await write_markers(self._peers, leader, remotes)
