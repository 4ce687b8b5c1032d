"""AlterPartitionReassignments (key 45), v0-v1: begins or cancels reassignments of partitions."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import ALTER, CLUSTER
from penstock.base.errors import Refusal
from penstock.base.ids import TopicPartition
from penstock.controller.rules.admin_requests import RequestedReplicas
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

REQUEST = AlterPartitionReassignmentsRequest
VERSIONS = (0, 1)
NEEDS = (Need(ALTER, CLUSTER),)
ANSWERED_BY_CONTROLLER = AlterPartitionReassignmentsResponse


async def handle(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    asked_for = [
        RequestedReplicas(
            TopicPartition(topic.name, each.partition_index),
            None if each.replicas is None else tuple(each.replicas),
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    outcomes = await call.services.cluster.controller.reassign_replicas(
        asked_for, keeps_factor=not request.allow_replication_factor_change
    )
    if isinstance(outcomes, Refusal):
        return AlterPartitionReassignmentsResponse(
            error_code=outcomes.code, error_message=outcomes.message, responses=[]
        )
    answers: dict[str, ReassignableTopicResponse] = {}
    for (topic, number), outcome in outcomes.items():
        answer = answers.setdefault(topic, ReassignableTopicResponse(name=topic, partitions=[]))
        answer.partitions.append(
            ReassignablePartitionResponse(
                partition_index=number, error_code=outcome.code, error_message=outcome.message
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=list(answers.values()),
    )
