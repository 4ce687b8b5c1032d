"""DescribeLogDirs (key 35), v1-v5: how large the partitions are, and how much room is left."""

from penstock.base.ids import TopicPartition
from penstock.services.context import Call
from penstock.services.partition import Partition
from penstock.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

REQUEST = DescribeLogDirsRequest
VERSIONS = (1, 5)
PATIENT = True


def handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    services = call.services
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in _wanted(call, request):
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=partition.log.size, offset_lag=0
            )
        )
    usage = services.world.disk.usage()
    result = DescribeLogDirsResult(
        log_dir=services.log_dir,
        topics=list(topics.values()),
        total_bytes=usage.total,
        usable_bytes=usage.usable,
    )
    return DescribeLogDirsResponse(results=[result])


def _wanted(call: Call, request: DescribeLogDirsRequest) -> list[Partition]:
    partitions = call.services.partitions
    if request.topics is None:
        return list(partitions.all())
    wanted = {
        TopicPartition(topic.topic, index): None for topic in request.topics for index in topic.partitions
    }
    found = [partitions.find(topic, index) for topic, index in wanted]
    return [partition for partition in found if isinstance(partition, Partition)]
