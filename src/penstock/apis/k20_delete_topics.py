"""DeleteTopics (key 20), v1-v6: by name, and from v6 by id."""

from collections import Counter

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import DELETE, TOPIC
from penstock.base.broker_settings import DELETE_TOPIC_ENABLE
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import ZERO_ID
from penstock.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

REQUEST = DeleteTopicsRequest
VERSIONS = (1, 6)
NEEDS = (
    Need(DELETE, TOPIC, "topic_names"),
    Need(DELETE, TOPIC, "topics.name", ids="topics.topic_id"),
)
ANSWERED_BY_CONTROLLER = DeleteTopicsResponse

TOPIC_IDS_SINCE = 6


async def handle(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = request.topics
    if call.version < TOPIC_IDS_SINCE:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    occurrences = Counter((topic.name, topic.topic_id) for topic in asked)
    responses = []
    for (name, topic_id), count in occurrences.items():
        refusal = _refusal(call, name, topic_id, count)
        if refusal is not None:
            responses.append(_refused(name, topic_id, refusal))
        else:
            responses.append(await _delete(call, name, topic_id))
    return DeleteTopicsResponse(responses=responses)


def _refusal(call: Call, name: str | None, topic_id: bytes, count: int) -> Refusal | None:
    if not call.services.node.configs.broker[DELETE_TOPIC_ENABLE]:
        return Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker")
    if name is not None and topic_id != ZERO_ID:
        return Refusal(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")
    if name is None and topic_id == ZERO_ID:
        return Refusal(ErrorCode.INVALID_REQUEST, "a topic has neither name nor id")
    if count > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "a topic is named more than once")
    return None


async def _delete(call: Call, name: str | None, topic_id: bytes) -> DeletableTopicResult:
    outcome = await call.services.cluster.controller.delete_topic(name, topic_id)
    if isinstance(outcome, Refusal):
        return _refused(name, topic_id, outcome)
    return DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id)


def _refused(name: str | None, topic_id: bytes, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=refusal.code, error_message=refusal.message
    )
