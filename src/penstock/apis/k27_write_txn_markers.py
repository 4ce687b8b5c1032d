"""WriteTxnMarkers (key 27), v1-v2: the end of transactions in partitions of this broker.

Brokers send it to one another, and an operator who ends a transaction that nobody looks after any more. From v2 on it
says the transaction's version, by which the epoch is checked.
"""

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.records.control import Marker, MarkerType
from penstock.services.context import Call
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

REQUEST = WriteTxnMarkersRequest
VERSIONS = (1, 2)

_TIMEOUT_MS = 30_000


async def handle(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[await _write(call, marker) for marker in request.markers])


async def _write(call: Call, asked: WritableTxnMarker) -> WritableTxnMarkerResult:
    marker = Marker(
        MarkerType.COMMIT if asked.transaction_result else MarkerType.ABORT,
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
    )
    topics = []
    for topic in asked.topics:
        codes: dict[int, ErrorCode] = {}
        for index in topic.partition_indexes:
            codes[index] = await call.services.transactions.markers.write(
                marker,
                TopicPartition(topic.name, index),
                version=asked.transaction_version,
                timeout_ms=_TIMEOUT_MS,
            )
        partitions = [
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
            for index, code in codes.items()
        ]
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)
