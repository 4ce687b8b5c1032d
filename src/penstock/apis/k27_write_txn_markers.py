"""WriteTxnMarkers (key 27), v1-v2: the end of transactions in partitions that this broker leads.

Coordinators send it to the leaders of a transaction's partitions. An operator's client (kafka-transactions abort,
penstock txn abort) sends it to end a hanging transaction, and may only abort: a request that commits is refused to
clients. From v2 on it has the transaction's version, which decides how the epoch is checked. All markers are appended
before any is awaited.
"""

import asyncio
from collections import deque
from typing import Final

from penstock.apis.broker_callers import is_broker
from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.reply import Reply
from penstock.apis.rights import ALTER, CLUSTER, CLUSTER_ACTION
from penstock.base.broker_settings import PENSTOCK_LOOP_SLICE_MS
from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.records.control import Marker, MarkerType
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.world.pacing import Pacer

REQUEST = WriteTxnMarkersRequest
VERSIONS = (1, 2)
NEEDS = (Need(CLUSTER_ACTION, CLUSTER, or_cluster=ALTER),)

# Shorter than the request timeout of the other broker, which would close the connection.
_TIMEOUT_MS: Final = 15_000


def handle(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | Reply:
    if any(marker.transaction_result for marker in request.markers) and not is_broker(call):
        return _refused(request)
    return Reply(_answer(call, request), next_may_start=True)


def _refused(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """CLUSTER_AUTHORIZATION_FAILED for everything, as Kafka answers without CLUSTER_ACTION."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=asked.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in asked.topics
                ],
            )
            for asked in request.markers
        ]
    )


async def _answer(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    services = call.services
    pacer = Pacer(services.node.world.loop, slice_ms=services.node.configs.broker[PENSTOCK_LOOP_SLICE_MS])
    outcomes: deque[ErrorCode | asyncio.Future[ErrorCode]] = deque()
    for asked in request.markers:
        for topic in asked.topics:
            for index in topic.partition_indexes:
                where = TopicPartition(topic.name, index)
                outcomes.append(
                    services.transactions.marker_appender.append(
                        _marker(asked), where, version=asked.transaction_version, timeout_ms=_TIMEOUT_MS
                    )
                )
                await pacer.pause()
    return WriteTxnMarkersResponse(markers=[await _result(asked, outcomes) for asked in request.markers])


def _marker(asked: WritableTxnMarker) -> Marker:
    return Marker(
        MarkerType.COMMIT if asked.transaction_result else MarkerType.ABORT,
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
    )


async def _result(
    asked: WritableTxnMarker, outcomes: "deque[ErrorCode | asyncio.Future[ErrorCode]]"
) -> WritableTxnMarkerResult:
    """The result for one marker; awaits its outcomes and removes them from the left."""
    topics = []
    for topic in asked.topics:
        partitions = []
        for index in topic.partition_indexes:
            outcome = outcomes.popleft()
            code = outcome if isinstance(outcome, ErrorCode) else await outcome
            partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)
