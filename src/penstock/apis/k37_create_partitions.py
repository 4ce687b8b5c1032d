"""CreatePartitions (key 37), v0-v3: adds partitions to topics."""

from collections import Counter

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import ALTER, TOPIC
from penstock.base.errors import ErrorCode, Refusal
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

REQUEST = CreatePartitionsRequest
VERSIONS = (0, 3)
NEEDS = (Need(ALTER, TOPIC, "topics.name"),)
ANSWERED_BY_CONTROLLER = CreatePartitionsResponse


async def handle(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    occurrences = Counter(topic.name for topic in request.topics)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        if occurrences[topic.name] > 1:
            results.append(_result(topic, Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        else:
            results.append(await _grow(call, topic, validate_only=request.validate_only))
    return CreatePartitionsResponse(results=results)


async def _grow(
    call: Call, asked: CreatePartitionsTopic, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    assignments = None
    if asked.assignments is not None:
        assignments = [tuple(assignment.broker_ids) for assignment in asked.assignments]
    outcome = await call.services.cluster.controller.create_partitions(
        asked.name, asked.count, assignments, validate_only=validate_only
    )
    return _result(asked, outcome if isinstance(outcome, Refusal) else Refusal(ErrorCode.NONE))


def _result(asked: CreatePartitionsTopic, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=asked.name, error_code=refusal.code, error_message=refusal.message
    )
