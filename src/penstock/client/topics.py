"""Topics: create, delete, add partitions, delete records; replica sizes, and the cluster's brokers.

CreateTopics v2-v7, DeleteTopics v1-v6, CreatePartitions v0-v3, DeleteRecords v0-v2, DescribeCluster v0-v2,
DescribeLogDirs v1-v5, DescribeTopicPartitions v0. Leaves out explicit replica assignments for new partitions.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicId, TopicPartition
from penstock.client.addresses import Address
from penstock.client.client import Client
from penstock.client.cluster import KnownBroker, KnownTopic
from penstock.client.errors import AnsweredError, UnsupportedError, raise_if_refused, refusal_of
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

BROKER_DEFAULT = -1
# The controller's timeout; shorter than the request's, so that its error comes first.
TIMEOUT_MS = 20_000
_VISIBLE_WITHIN_MS = 5_000
_DELETES_BY_STATE_SINCE = 6


class NewTopic(NamedTuple):
    """A topic to create; without `assignments` (partition → replicas) the controller chooses the brokers."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}
    assignments: Mapping[int, Sequence[int]] = {}


class Created(NamedTuple):
    """A created topic; the counts are -1 if an old broker does not report them."""

    topic_id: TopicId
    partitions: int
    replication_factor: int


class ReplicaSize(NamedTuple):
    """One replica on one broker's disk."""

    node_id: int
    directory: str
    size: int  # bytes
    offset_lag: int


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: tuple[KnownBroker, ...]


async def create_topics(
    client: Client, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, Created | Refusal]:
    """Create topics. When this returns, they are in the metadata of the broker that this client asks."""
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics], timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )

    async def attempt() -> dict[str, Created | Refusal]:
        response = await client.ask_controller(request, CreateTopicsResponse)
        results: dict[str, Created | Refusal] = {}
        for each in response.topics:
            _retry_elsewhere(each.error_code, f"create topic {each.name}")
            created = Created(TopicId(each.topic_id), each.num_partitions, each.replication_factor)
            results[each.name] = refusal_of(each.error_code, each.error_message) or created
        return results

    results = await client.retry(attempt)
    if not validate_only:
        made = [name for name, result in results.items() if isinstance(result, Created)]
        await _wait_until_shown(client, dict.fromkeys(made, 1))
    return results


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, Refusal | None]:
    """Delete topics by name; None for each that was deleted."""
    by_state = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], timeout_ms=TIMEOUT_MS
    )
    by_name = DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)

    async def attempt() -> dict[str, Refusal | None]:
        connection = await client.controller_connection()
        takes_states = connection.versions.pick(DeleteTopicsRequest) >= _DELETES_BY_STATE_SINCE
        response = await connection.ask(by_state if takes_states else by_name, DeleteTopicsResponse)
        results: dict[str, Refusal | None] = {}
        for each in response.responses:
            _retry_elsewhere(each.error_code, f"delete topic {each.name}")
            results[each.name or ""] = refusal_of(each.error_code, each.error_message)
        return results

    results = await client.retry(attempt)
    client.cluster.forget()
    return results


async def create_partitions(client: Client, counts: Mapping[str, int]) -> dict[str, Refusal | None]:
    """Increase topics to this many partitions; None for each that was."""
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()
        ],
        timeout_ms=TIMEOUT_MS,
    )

    async def attempt() -> dict[str, Refusal | None]:
        response = await client.ask_controller(request, CreatePartitionsResponse)
        results: dict[str, Refusal | None] = {}
        for each in response.results:
            _retry_elsewhere(each.error_code, f"add partitions to {each.name}")
            results[each.name] = refusal_of(each.error_code, each.error_message)
        return results

    results = await client.retry(attempt)
    await _wait_until_shown(
        client, {name: counts[name] for name, refusal in results.items() if refusal is None}
    )
    return results


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | Refusal]:
    """Delete records below an offset (-1: the high watermark); the new log start offset of each partition."""

    async def ask(node_id: int, partitions: Sequence[TopicPartition]) -> DeleteRecordsResponse:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(
                            partition_index=index, offset=before[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ],
            timeout_ms=TIMEOUT_MS,
        )
        return await client.ask_node(node_id, request, DeleteRecordsResponse)

    async def attempt() -> dict[TopicPartition, int | Refusal]:
        leaders = await client.leaders(before)
        results: dict[TopicPartition, int | Refusal] = {}
        for response in await asyncio.gather(*(ask(*item) for item in leaders.items())):
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    results[partition] = refusal_of(each.error_code) or each.low_watermark
        return results

    return await client.retry(attempt)


async def describe_cluster(client: Client) -> ClusterDescription:
    """The cluster's id, controller and brokers."""
    response = await client.retry(lambda: client.ask_any(DescribeClusterRequest(), DescribeClusterResponse))
    raise_if_refused(response.error_code, response.error_message, "describe the cluster")
    brokers = (
        KnownBroker(each.broker_id, Address(each.host, each.port), each.rack) for each in response.brokers
    )
    return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers))


async def with_eligible(client: Client, topics: Sequence[KnownTopic]) -> list[KnownTopic]:
    """The same topics with their ELR, if a broker reports it."""
    lacking = [topic.name for topic in topics if any(len(p.isr) < len(p.replicas) for p in topic.partitions)]
    try:
        found = await client.retry(lambda: _eligible(client, lacking)) if lacking else {}
    except UnsupportedError:
        found = {}
    return [
        topic._replace(
            partitions=tuple(
                each._replace(elr=found.get(TopicPartition(topic.name, each.partition), ()))
                for each in topic.partitions
            )
        )
        for topic in topics
    ]


async def _eligible(client: Client, names: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
    found: dict[TopicPartition, tuple[int, ...]] = {}
    while True:
        response = await client.ask_any(request, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name or "", each.partition_index)
                found[where] = tuple(each.eligible_leader_replicas or ())
        if response.next_cursor is None:
            return found
        request.cursor = response.next_cursor


async def replica_sizes(
    client: Client, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ReplicaSize]]:
    """The sizes of replicas on all brokers that answer, without future replicas (moves between directories)."""
    request = DescribeLogDirsRequest(
        topics=[
            DescribableLogDirTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )

    async def attempt() -> dict[TopicPartition, list[ReplicaSize]]:
        sizes: dict[TopicPartition, list[ReplicaSize]] = {}
        for node_id, response in (await client.ask_reachable(request, DescribeLogDirsResponse)).items():
            raise_if_refused(response.error_code, None, f"describe the log directories of broker {node_id}")
            for directory in response.results:
                for topic in directory.topics:
                    for each in topic.partitions:
                        if not each.is_future_key:
                            sizes.setdefault(TopicPartition(topic.name, each.partition_index), []).append(
                                ReplicaSize(node_id, directory.log_dir, each.partition_size, each.offset_lag)
                            )
        return sizes

    return await client.retry(attempt)


def by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """The partitions grouped by topic, as requests need them."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=BROKER_DEFAULT if topic.assignments else topic.partitions,
        replication_factor=BROKER_DEFAULT if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _retry_elsewhere(code: int, about: str) -> None:
    """Retry the whole request on NOT_CONTROLLER: the former controller has changed nothing."""
    if code == ErrorCode.NOT_CONTROLLER:
        raise AnsweredError(Refusal(ErrorCode.NOT_CONTROLLER), about)


async def _wait_until_shown(client: Client, partition_counts: Mapping[str, int]) -> None:
    """Wait until a broker's metadata have the controller's changes, which reach brokers a moment later."""
    if not partition_counts:
        return
    deadline = client.loop.time() + _VISIBLE_WITHIN_MS / 1000
    tries = 0
    while client.loop.time() < deadline:
        topics = await client.retry(lambda: client.refresh(partition_counts))
        if all(_is_shown(topic, partition_counts[topic.name]) for topic in topics):
            return
        await client.back_off(tries)
        tries += 1


def _is_shown(topic: KnownTopic, partition_count: int) -> bool:
    has_all = len(topic.partitions) >= partition_count
    return topic.refusal is None and has_all and all(each.leader >= 0 for each in topic.partitions)
