"""OffsetDelete (key 47), v0: deletes committed offsets of topics that the group does not subscribe to."""

from penstock.apis.context import Call
from penstock.apis.group_requests import code_of
from penstock.apis.needs import Need
from penstock.apis.rights import DELETE, GROUP, READ, TOPIC
from penstock.base.errors import ErrorCode, Refusal
from penstock.core.groups.requests import DeleteOffsets
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

REQUEST = OffsetDeleteRequest
VERSIONS = (0, 0)
NEEDS = (
    Need(DELETE, GROUP, "group_id"),
    Need(READ, TOPIC, "topics.name"),
)


async def handle(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    image = call.services.cluster.image
    known = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if image.topic(topic.name) is not None
    ]
    delete = DeleteOffsets(group_id=request.group_id, partitions=known)
    codes = await call.services.coordinators.groups.ask(
        request.group_id, lambda shard, _: shard.delete_offsets(delete)
    )
    if isinstance(codes, Refusal):
        return OffsetDeleteResponse(error_code=code_of(codes))
    outcomes = dict(zip(known, codes, strict=True))
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=outcomes.get(
                            (topic.name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
