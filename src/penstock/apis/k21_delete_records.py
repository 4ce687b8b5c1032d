"""DeleteRecords (key 21), v0-v2: move a partition's log start offset up."""

from penstock.base.errors import ErrorCode
from penstock.services.context import Call
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

REQUEST = DeleteRecordsRequest
VERSIONS = (0, 2)


def handle(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(call, topic.name, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(call: Call, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = call.services.partitions.find(topic, asked.partition_index)
    outcome = partition if isinstance(partition, ErrorCode) else partition.delete_records(asked.offset)
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=outcome
        )
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=outcome)
