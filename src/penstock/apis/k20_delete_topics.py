"""DeleteTopics (key 20), v1-v6: by name, and from v6 by id."""

from collections.abc import Coroutine
from typing import Any

from penstock.base.broker_settings import DELETE_TOPIC_ENABLE
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import ZERO_ID
from penstock.services.context import Call
from penstock.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

REQUEST = DeleteTopicsRequest
VERSIONS = (1, 6)

TOPIC_IDS_SINCE = 6


def handle(call: Call, request: DeleteTopicsRequest) -> Coroutine[Any, Any, DeleteTopicsResponse]:
    return _delete_all(call, request)


async def _delete_all(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked = request.topics
    if call.version < TOPIC_IDS_SINCE:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(responses=[await _delete(call, topic) for topic in asked])


async def _delete(call: Call, asked: DeleteTopicState) -> DeletableTopicResult:
    name = asked.name
    if not call.services.configs.broker[DELETE_TOPIC_ENABLE]:
        refusal = Refusal(
            ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled (delete.topic.enable)."
        )
        return _refused(asked, refusal)
    if name is not None and asked.topic_id != ZERO_ID:
        return _refused(
            asked, Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        )
    if name is None:
        if asked.topic_id == ZERO_ID:
            return _refused(
                asked, Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
            )
        name = call.services.image.name_of(asked.topic_id)
        if name is None:
            return _refused(asked, Refusal(ErrorCode.UNKNOWN_TOPIC_ID))
    outcome = await call.services.controller.delete_topic(name)
    if isinstance(outcome, Refusal):
        return _refused(asked, outcome)
    return DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id)


def _refused(asked: DeleteTopicState, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=asked.name, topic_id=asked.topic_id, error_code=refusal.code, error_message=refusal.message
    )
