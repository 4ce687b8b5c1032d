"""DescribeTopicPartitions (key 75), v0: partitions page by page, for clusters with very many of them."""

from penstock.apis.context import Call
from penstock.apis.needs import ListedOnly, Need
from penstock.apis.rights import DESCRIBE, TOPIC
from penstock.base.broker_settings import MAX_REQUEST_PARTITION_SIZE_LIMIT
from penstock.base.errors import ErrorCode
from penstock.base.ids import topic_name_problem
from penstock.cluster.metadata import Topic
from penstock.services.authorized_operations import TOPIC_OPERATIONS
from penstock.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

REQUEST = DescribeTopicPartitionsRequest
VERSIONS = (0, 0)
NEEDS = (
    Need(DESCRIBE, TOPIC, "topics.name"),
    ListedOnly(DESCRIBE, TOPIC),
)
LOW_PRIORITY = True


def handle(call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    if not _cursor_is_valid(request):
        return DescribeTopicPartitionsResponse(topics=[_invalid(topic.name) for topic in request.topics])
    limit = call.services.node.configs.broker[MAX_REQUEST_PARTITION_SIZE_LIMIT]
    room = min(max(request.response_partition_limit, 1), limit)
    response = DescribeTopicPartitionsResponse()
    for name in _names(call, request):
        topic = call.services.cluster.image.topic(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        first = _first_partition(request, name)
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        page = _page(topic, first, room)
        response.topics.append(page)
        room -= len(page.partitions)
        after = first + len(page.partitions)
        if after < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=after)
            break
    return response


def _cursor_is_valid(request: DescribeTopicPartitionsRequest) -> bool:
    """The cursor has to be within the requested topics."""
    cursor = request.cursor
    if cursor is None:
        return True
    listed = not request.topics or cursor.topic_name in [topic.name for topic in request.topics]
    return listed and cursor.partition_index >= 0


def _invalid(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)


def _names(call: Call, request: DescribeTopicPartitionsRequest) -> list[str]:
    """The topics still to describe, sorted by name, which is the cursor's order."""
    if request.topics:
        names = sorted({topic.name for topic in request.topics})
    else:
        names = [topic.name for topic in call.services.cluster.image.topics()]
    if request.cursor is None:
        return names
    return [name for name in names if name >= request.cursor.topic_name]


def _first_partition(request: DescribeTopicPartitionsRequest, name: str) -> int:
    if request.cursor is not None and request.cursor.topic_name == name:
        return request.cursor.partition_index
    return 0


def _page(topic: Topic, first: int, room: int) -> DescribeTopicPartitionsResponseTopic:
    states = list(enumerate(topic.partitions))[first : first + room]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=list(state.elr),
                last_known_elr=[],
            )
            for index, state in states
        ],
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    known_bad = topic_name_problem(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if known_bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )
