"""DescribeProducers (key 61), v0: the active producers of partitions, and their open transactions."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import READ, TOPIC
from penstock.base.errors import ErrorCode
from penstock.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

REQUEST = DescribeProducersRequest
VERSIONS = (0, 0)
NEEDS = (Need(READ, TOPIC, "topics.name"),)
LOW_PRIORITY = True


def handle(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(call, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(call: Call, topic: str, index: int) -> PartitionResponse:
    leader = call.services.logs.replicas.find_leader(topic, index)
    if isinstance(leader, ErrorCode):
        words = f"There is no partition {index} of topic {topic} that this broker leads."
        return PartitionResponse(partition_index=index, error_code=leader, error_message=words)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for entry in leader.active_producers()
        ],
    )
