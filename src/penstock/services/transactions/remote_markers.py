"""The end of transactions in partitions that other brokers lead: WriteTxnMarkers to their leaders."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.errors import error_code
from penstock.cluster.peers import Peers
from penstock.core.transactions.transaction import by_topic
from penstock.records.control import Marker
from penstock.services.transactions.outboxes import Outboxes
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.world import World

_PARTITIONS_MAX: Final = 1000
_REQUESTS_MAX: Final = 5


class RemoteMarker(NamedTuple):
    """The end of a transaction of that version, in one partition."""

    marker: Marker
    where: TopicPartition
    version: int


class RemoteMarkers:
    """Has markers written by the leaders of their partitions."""

    def __init__(self, world: World, peers: Peers) -> None:
        self._peers = peers
        self._outboxes: Outboxes[RemoteMarker, ErrorCode] = Outboxes(
            world,
            self._ask,
            key=lambda remote: (remote.marker.producer_id, remote.where),
            unanswered=ErrorCode.NETWORK_EXCEPTION,
            items_max=_PARTITIONS_MAX,
            requests_max=_REQUESTS_MAX,
        )

    def write(self, leader: int, remote: RemoteMarker) -> "asyncio.Future[ErrorCode]":
        """A future for NONE once the marker is safe; NETWORK_EXCEPTION if nobody knows."""
        return self._outboxes.put(leader, remote)

    async def stop(self) -> None:
        await self._outboxes.stop()

    async def _ask(self, leader: int, remotes: Sequence[RemoteMarker]) -> list[ErrorCode]:
        answer = await self._peers.ask(leader, request_for(remotes), WriteTxnMarkersResponse)
        codes = {
            (result.producer_id, TopicPartition(topic.name, partition.partition_index)): error_code(
                partition.error_code
            )
            for result in answer.markers
            for topic in result.topics
            for partition in topic.partitions
        }
        # A partition without an answer is tried again, as one without a broker.
        return [
            codes.get((remote.marker.producer_id, remote.where), ErrorCode.NETWORK_EXCEPTION)
            for remote in remotes
        ]


def request_for(remotes: Sequence[RemoteMarker]) -> WriteTxnMarkersRequest:
    """One marker per transaction, with its partitions."""
    partitions: dict[tuple[Marker, int], list[TopicPartition]] = {}
    for marker, where, version in remotes:
        partitions.setdefault((marker, version), []).append(where)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(places).items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=version,
            )
            for (marker, version), places in partitions.items()
        ]
    )
