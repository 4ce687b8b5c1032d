"""ListPartitionReassignments (key 46), v0: the reassignments in progress."""

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CLUSTER, DESCRIBE
from penstock.controller.controller import NOT_CONTROLLER
from penstock.controller.rules.admin_requests import ongoing_reassignments
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

REQUEST = ListPartitionReassignmentsRequest
VERSIONS = (0, 0)
NEEDS = (Need(DESCRIBE, CLUSTER),)
ANSWERED_BY_CONTROLLER = ListPartitionReassignmentsResponse


def handle(call: Call, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    if not call.services.cluster.controller.is_active:
        # Its metadata may be older: an error rather than an empty list.
        return ListPartitionReassignmentsResponse(
            error_code=NOT_CONTROLLER.code, error_message=NOT_CONTROLLER.message, topics=[]
        )
    wanted = None
    if request.topics is not None:
        wanted = {(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
    answers: dict[str, OngoingTopicReassignment] = {}
    for where, state in ongoing_reassignments(call.services.cluster.image).items():
        if wanted is not None and tuple(where) not in wanted:
            continue
        answer = answers.setdefault(where.topic, OngoingTopicReassignment(name=where.topic, partitions=[]))
        answer.partitions.append(
            OngoingPartitionReassignment(
                partition_index=where.partition,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
        )
    return ListPartitionReassignmentsResponse(topics=list(answers.values()))
