"""Metadata (key 3), v0-v13: brokers, and topics by name or id; creates topics if auto.create.topics.enable allows."""

from penstock.apis.context import Call
from penstock.apis.needs import ListedOnly, Need
from penstock.apis.reply import Reply
from penstock.apis.rights import DESCRIBE, TOPIC
from penstock.base.broker_settings import AUTO_CREATE_TOPICS_ENABLE
from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import ZERO_ID, TopicId, topic_name_problem
from penstock.cluster.metadata import NO_LEADER, PartitionState, Topic
from penstock.cluster.topic_spec import TopicSpec
from penstock.services.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

REQUEST = MetadataRequest
VERSIONS = (0, 13)
NEEDS = (
    Need(DESCRIBE, TOPIC, "topics.name", ids="topics.topic_id"),
    ListedOnly(DESCRIBE, TOPIC),
)

TOPIC_IDS_SINCE = 12  # versions 10 and 11 have the field, but topics are not looked up by it
NULL_MEANS_ALL_SINCE = 1


def handle(call: Call, request: MetadataRequest) -> MetadataResponse | Reply:
    image = call.services.cluster.image
    wanted = request.topics
    if wanted is None or (call.version < NULL_MEANS_ALL_SINCE and not wanted):
        return _response(call, request, [_describe(call, topic) for topic in image.topics()])
    if call.version < TOPIC_IDS_SINCE and any(
        topic.topic_id != ZERO_ID or topic.name is None for topic in wanted
    ):
        return MetadataResponse(topics=[_refused_before_ids(topic) for topic in wanted])
    missing = _to_create(call, request, wanted)
    if missing:
        return Reply(_create_then_answer(call, request, wanted, missing))
    return _response(call, request, [_answer(call, topic) for topic in wanted])


def _to_create(call: Call, request: MetadataRequest, wanted: list[MetadataRequestTopic]) -> list[str]:
    if not (
        request.allow_auto_topic_creation and call.services.node.configs.broker[AUTO_CREATE_TOPICS_ENABLE]
    ):
        return []
    image = call.services.cluster.image
    return [
        topic.name
        for topic in wanted
        if topic.topic_id == ZERO_ID
        and topic.name is not None
        and image.topic(topic.name) is None
        and topic_name_problem(topic.name) is None
    ]


async def _create_then_answer(
    call: Call, request: MetadataRequest, wanted: list[MetadataRequestTopic], missing: list[str]
) -> MetadataResponse:
    refusals: dict[str, ErrorCode] = {}
    for name in missing:
        outcome = await call.services.cluster.controller_link.create_topic(TopicSpec(name))
        if isinstance(outcome, Refusal) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            refusals[name] = outcome.code
    return _response(
        call,
        request,
        [
            _refused(topic, refusals[topic.name]) if topic.name in refusals else _answer(call, topic)
            for topic in wanted
        ],
    )


def _answer(call: Call, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    image = call.services.cluster.image
    if wanted.topic_id != ZERO_ID:
        topic = image.topic_by_id(wanted.topic_id)
        return _unknown_id(wanted.topic_id) if topic is None else _describe(call, topic)
    if wanted.name is None:
        return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_ID)
    topic = image.topic(wanted.name)
    if topic is not None:
        return _describe(call, topic)
    if topic_name_problem(wanted.name) is not None:
        return _refused(wanted, ErrorCode.INVALID_TOPIC_EXCEPTION)
    return _refused(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _unknown_id(topic_id: bytes) -> MetadataResponseTopic:
    """The answer for an unknown topic id; the name in the request is ignored."""
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _refused(wanted: MetadataRequestTopic, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=wanted.name, topic_id=TopicId(wanted.topic_id))


def _refused_before_ids(wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    """Versions 10 and 11 allow an id with a null name, but no null name in the response."""
    return MetadataResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=wanted.name or "", topic_id=wanted.topic_id
    )


def _describe(call: Call, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(call, index, state) for index, state in enumerate(topic.partitions)],
    )


def _partition(call: Call, index: int, state: PartitionState) -> MetadataResponsePartition:
    # A client that gets a dead leader keeps it for 1 s; one that gets LEADER_NOT_AVAILABLE retries soon.
    now = call.services.node.world.loop.time()
    is_led = state.leader != NO_LEADER and not call.services.cluster.broker_view.seems_dead(
        state.leader, now=now
    )
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader if is_led else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
    )


def _response(call: Call, request: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    services, image = call.services, call.services.cluster.image
    now = services.node.world.loop.time()
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
            for b in services.cluster.broker_view.addresses(image, call.client.listener, now=now)
        ],
        cluster_id=image.cluster_id,
        # This broker, since any broker forwards requests to the controller, and this one is alive. librdkafka waits a
        # minute for a controller that is down, without another Metadata request.
        controller_id=services.node.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
