"""AlterPartition (key 56), v2-v3: a leader proposes ISR changes to the controller. Between brokers only."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, CLUSTER_ACTION
from penstock.base.errors import Refusal
from penstock.base.ids import TopicIdPartition
from penstock.core.isr_proposals import UNKNOWN_EPOCH, Proposal, Verdict
from penstock.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataResponse,
    TopicDataResponse,
)

REQUEST = AlterPartitionRequest
VERSIONS = (2, 3)
NEEDS = (Need(CLUSTER_ACTION, CLUSTER),)
BROKERS_ONLY = True


async def handle(call: Call, request: AlterPartitionRequest) -> AlterPartitionResponse:
    proposals = {
        TopicIdPartition(topic.topic_id, asked.partition_index): _proposal(asked)
        for topic in request.topics
        for asked in topic.partitions
    }
    verdicts = await call.services.cluster.controller.alter_partitions(
        request.broker_id, proposals, broker_epoch=request.broker_epoch
    )
    if isinstance(verdicts, Refusal):
        return AlterPartitionResponse(error_code=verdicts.code, topics=[])
    topics: dict[bytes, TopicDataResponse] = {}
    for (topic_id, partition), verdict in verdicts.items():
        topic = topics.setdefault(topic_id, TopicDataResponse(topic_id=topic_id, partitions=[]))
        topic.partitions.append(_answer(partition, verdict))
    return AlterPartitionResponse(topics=list(topics.values()))


def _proposal(asked: PartitionData) -> Proposal:
    members = asked.new_isr_with_epochs
    return Proposal(
        isr=tuple(member.broker_id for member in members) or tuple(asked.new_isr),
        broker_epochs=tuple(member.broker_epoch for member in members)
        or (UNKNOWN_EPOCH,) * len(asked.new_isr),
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch,
    )


def _answer(partition: int, verdict: Verdict) -> PartitionDataResponse:
    answer = PartitionDataResponse(partition_index=partition, error_code=verdict.error)
    if not verdict.error:
        answer.leader_id = verdict.leader
        answer.leader_epoch = verdict.leader_epoch
        answer.isr = list(verdict.isr)
        answer.partition_epoch = verdict.partition_epoch
    return answer
