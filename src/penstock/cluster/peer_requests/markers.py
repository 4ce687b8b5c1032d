"""Transaction markers for partitions that other brokers lead: WriteTxnMarkers."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.errors import error_code
from penstock.cluster.peers import Peers
from penstock.core.transactions.transaction import by_topic
from penstock.records.control import Marker
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class RemoteMarker(NamedTuple):
    """The end of a transaction of that version, in one partition."""

    marker: Marker
    where: TopicPartition
    version: int


async def write_markers(peers: Peers, leader: int, remotes: Sequence[RemoteMarker]) -> list[ErrorCode]:
    """Have a leader write markers; the outcome of each. NETWORK_EXCEPTION where the answer lacks one."""
    answer = await peers.ask(leader, markers_request(remotes), WriteTxnMarkersResponse)
    codes = {
        (result.producer_id, TopicPartition(topic.name, partition.partition_index)): error_code(
            partition.error_code
        )
        for result in answer.markers
        for topic in result.topics
        for partition in topic.partitions
    }
    return [
        codes.get((remote.marker.producer_id, remote.where), ErrorCode.NETWORK_EXCEPTION)
        for remote in remotes
    ]


def markers_request(remotes: Sequence[RemoteMarker]) -> WriteTxnMarkersRequest:
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
