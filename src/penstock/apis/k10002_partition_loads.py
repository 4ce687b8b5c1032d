"""PartitionLoads (key 10002), v0: sizes and sent bytes of this broker's partitions, for the balancer. Private."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, CLUSTER_ACTION
from penstock.wire.private.partition_loads import (
    PartitionLoad,
    PartitionLoadsRequest,
    PartitionLoadsResponse,
    PartitionLoadsTopic,
)

REQUEST = PartitionLoadsRequest
VERSIONS = (0, 0)
NEEDS = (Need(CLUSTER_ACTION, CLUSTER),)
BROKERS_ONLY = True
LOW_PRIORITY = True


def handle(call: Call, _request: PartitionLoadsRequest) -> PartitionLoadsResponse:
    topics: dict[str, PartitionLoadsTopic] = {}
    for partition in call.services.logs.replicas.all():
        topic = topics.setdefault(partition.topic, PartitionLoadsTopic(name=partition.topic))
        topic.partitions.append(
            PartitionLoad(
                partition_index=partition.index,
                size_bytes=partition.log.size,
                sent_bytes=partition.sent_bytes,
            )
        )
    return PartitionLoadsResponse(topics=list(topics.values()))
