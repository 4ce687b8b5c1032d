"""LogEnds (key 10001), v0: where the logs of this broker's replicas end, for a majority election. Private."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, CLUSTER_ACTION
from penstock.base.errors import ErrorCode
from penstock.controller.majority_elections import report_of
from penstock.wire.private.log_ends import (
    LogEndsPartition,
    LogEndsPartitionResult,
    LogEndsRequest,
    LogEndsResponse,
    LogEndsTopicResult,
)

REQUEST = LogEndsRequest
VERSIONS = (0, 0)
NEEDS = (Need(CLUSTER_ACTION, CLUSTER),)
BROKERS_ONLY = True


def handle(call: Call, request: LogEndsRequest) -> LogEndsResponse:
    return LogEndsResponse(
        topics=[
            LogEndsTopicResult(
                topic_id=topic.topic_id,
                partitions=[_result(call, topic.topic_id, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _result(call: Call, topic_id: bytes, asked: LogEndsPartition) -> LogEndsPartitionResult:
    index = asked.partition_index
    found = report_of(call.services.logs.replicas, topic_id, index, leader_epoch=asked.leader_epoch)
    if isinstance(found, ErrorCode):
        return LogEndsPartitionResult(partition_index=index, error_code=found)
    return LogEndsPartitionResult(
        partition_index=index, last_epoch=found.last_epoch, end_offset=found.end_offset
    )
