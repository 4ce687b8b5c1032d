"""CreateTopics (key 19), v2-v7: creates topics, or only validates the request."""

from collections import Counter

from penstock.apis.context import Call
from penstock.apis.needs import Need
from penstock.apis.rights import CREATE, TOPIC
from penstock.base.errors import ErrorCode, Refusal
from penstock.cluster.metadata import Topic
from penstock.cluster.topic_spec import TopicSpec
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

REQUEST = CreateTopicsRequest
VERSIONS = (2, 7)
NEEDS = (Need(CREATE, TOPIC, "topics.name", or_cluster=CREATE),)
ANSWERED_BY_CONTROLLER = CreateTopicsResponse


async def handle(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    occurrences = Counter(topic.name for topic in request.topics)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        if occurrences[topic.name] > 1:
            refusal = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(_refused(topic.name, refusal))
        else:
            results.append(await _create(call, topic, validate_only=request.validate_only))
    return CreateTopicsResponse(topics=results)


async def _create(call: Call, asked: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    assignments = {a.partition_index: tuple(a.broker_ids) for a in asked.assignments}
    if len(assignments) < len(asked.assignments):
        return _refused(
            asked.name,
            Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned more than once"),
        )
    nulls = [config.name for config in asked.configs if config.value is None]
    if nulls:
        return _refused(
            asked.name, Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for {nulls[0]}")
        )
    new = TopicSpec(
        name=asked.name,
        partition_count=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignments=assignments,
        configs={config.name: config.value for config in asked.configs if config.value is not None},
    )
    outcome = await call.services.cluster.controller.create_topic(new, validate_only=validate_only)
    if isinstance(outcome, Refusal):
        return _refused(asked.name, outcome)
    return _created(call, outcome, validate_only=validate_only)


def _created(call: Call, topic: Topic, *, validate_only: bool) -> CreatableTopicResult:
    configs = [
        CreatableTopicConfigs(
            name=entry.setting.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.setting.sensitive,
        )
        for entry in call.services.node.configs.describe_topic(topic)
    ]
    return CreatableTopicResult(
        name=topic.name,
        topic_id=bytes(16) if validate_only else topic.topic_id,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        error_message=None,
        configs=configs,
    )


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.code, error_message=refusal.message)
