"""DescribeLogDirs (key 35), v1-v5: the sizes of partitions, and the free disk space.

A controller of a version before PartitionLoads (key 10002) also gets the bytes of each partition that were sent to
consumers, in the form of another log directory (`controller.requests_to_unproven_peers`).
"""

from collections.abc import Callable, Sequence

from penstock.apis.broker_callers import claims_to_be_old_broker
from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, DESCRIBE
from penstock.base.ids import TopicPartition
from penstock.controller.requests_to_unproven_peers import SENT_BYTES
from penstock.services.replicas.replica import Replica
from penstock.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

REQUEST = DescribeLogDirsRequest
VERSIONS = (1, 5)
NEEDS = (Need(DESCRIBE, CLUSTER),)
LOW_PRIORITY = True


def handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    services = call.services
    wanted = _wanted(call, request)
    usage = services.node.world.disk.usage()
    result = DescribeLogDirsResult(
        log_dir=services.node.log_dir,
        topics=_topics(wanted, lambda partition: partition.log.size),
        total_bytes=usage.total,
        usable_bytes=usage.usable,
    )
    results = [result]
    if claims_to_be_old_broker(call):
        sent = _topics(wanted, lambda partition: partition.sent_bytes)
        results.append(DescribeLogDirsResult(log_dir=SENT_BYTES, topics=sent))
    return DescribeLogDirsResponse(results=results)


def _topics(partitions: Sequence[Replica], size_of: Callable[[Replica], int]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=size_of(partition), offset_lag=0
            )
        )
    return list(topics.values())


def _wanted(call: Call, request: DescribeLogDirsRequest) -> list[Replica]:
    partitions = call.services.logs.replicas
    if request.topics is None:
        return list(partitions.all())
    wanted = {
        TopicPartition(topic.topic, index): None for topic in request.topics for index in topic.partitions
    }
    found = [partitions.find_replica(topic, index) for topic, index in wanted]
    return [partition for partition in found if isinstance(partition, Replica)]
