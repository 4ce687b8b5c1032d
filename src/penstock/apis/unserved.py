"""Answers to what Kafka's protocol has and this broker does not do: UNSUPPORTED_VERSION, and the connection stays open.

These APIs are not advertised, and clients that look at ApiVersions do not send them. A client that sends one all the
same learns from the answer what is wrong, and keeps its connection. That goes for every version in the protocol's
schema; the format of a version that is not in it is unknown, so the connection is closed, as Kafka closes it.
"""

from collections.abc import Callable
from typing import Any, Final

from penstock.apis.context import Call
from penstock.base.errors import ErrorCode
from penstock.schema.words import Message, Struct
from penstock.wire.messages import response_type

_CODE: Final = ErrorCode.UNSUPPORTED_VERSION
_REASON: Final = "This broker does not implement this request."


def refuse(call: Call, request: Message) -> Message:
    """The answer to any request: the error for the request as a whole, or for each of the things that it names."""
    response = response_type(request.API_KEY)()
    per_part = _PER_PART.get(request.API_KEY)
    if per_part is None:
        _tell(response, call.version)
    else:
        per_part(response, request)
    return response


def _tell(response: Struct, version: int) -> None:
    answer: Any = response
    answer.error_code = _CODE
    message = response.FIELDS.get("error_message")
    if message is not None and message.is_in(version):
        answer.error_message = _REASON


def _part(parent: Message, name: str) -> Callable[..., Any]:
    shape: Any = parent.FIELDS[name].type
    return lambda **values: shape(error_code=_CODE, error_message=_REASON, **values)


def _groups_by_id(response: Any, request: Any) -> None:
    response.groups = [_part(response, "groups")(group_id=group_id) for group_id in request.group_ids]


def _groups(response: Any, request: Any) -> None:
    response.groups = [_part(response, "groups")(group_id=group.group_id) for group in request.groups]


def _share_group_state(response: Any, request: Any) -> None:
    topic_shape: Any = response.FIELDS["results"].type
    for topic in request.topics:
        result = topic_shape(topic_id=topic.topic_id)
        part = _part(result, "partitions")
        result.partitions = [part(partition=partition.partition) for partition in topic.partitions]
        response.results.append(result)


# The responses that have no place for an error of the request as a whole.
_PER_PART: Final[dict[int, Callable[[Any, Any], None]]] = {
    77: _groups_by_id,  # ShareGroupDescribe
    83: _share_group_state,  # InitializeShareGroupState
    84: _share_group_state,  # ReadShareGroupState
    85: _share_group_state,  # WriteShareGroupState
    86: _share_group_state,  # DeleteShareGroupState
    87: _share_group_state,  # ReadShareGroupStateSummary
    89: _groups_by_id,  # StreamsGroupDescribe
    90: _groups,  # DescribeShareGroupOffsets
}
