"""AlterPartition as the controller answers it, to other brokers and to its own."""

from penstock.base.errors import ErrorCode, Refusal
from penstock.cluster.metadata import MetadataImage
from penstock.controller.controller import Controller
from penstock.controller.rules.isr import PartitionProposal, Verdict
from penstock.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataResponse,
    TopicDataResponse,
)


async def alter_partitions(
    controller: Controller, image: MetadataImage, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """What becomes of the in-sync sets that a leader asks for."""
    if not controller.is_active:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER, topics=[])
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[])
    proposals = [
        PartitionProposal(
            topic.topic_id,
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            [(member.broker_id, member.broker_epoch) for member in each.new_isr_with_epochs]
            or [(member, -1) for member in each.new_isr],
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    verdicts = await controller.alter_partitions(request.broker_id, proposals)
    if isinstance(verdicts, Refusal):
        return AlterPartitionResponse(error_code=verdicts.code, topics=[])
    answers: dict[bytes, TopicDataResponse] = {}
    for verdict in verdicts:
        topic_id = verdict.proposal.topic_id
        answer = answers.setdefault(topic_id, TopicDataResponse(topic_id=topic_id, partitions=[]))
        answer.partitions.append(_answer(verdict))
    return AlterPartitionResponse(topics=list(answers.values()))


def _answer(verdict: Verdict) -> PartitionDataResponse:
    answer = PartitionDataResponse(partition_index=verdict.proposal.partition, error_code=verdict.error)
    state = verdict.state
    if state is not None:
        answer.leader_id = state.leader
        answer.leader_epoch = state.leader_epoch
        answer.isr = list(state.isr)
        answer.partition_epoch = state.partition_epoch
    return answer
