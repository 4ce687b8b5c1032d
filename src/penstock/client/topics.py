"""Topics: create, delete, grow, cut off at the front; and where a cluster keeps them.

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
# How long the controller may take; shorter than a request may take, so that its answer comes first.
TIMEOUT_MS = 20_000
_VISIBLE_WITHIN_MS = 5_000
_DELETES_BY_STATE_SINCE = 6


class NewTopic(NamedTuple):
    """A topic to be; without `assignments` (partition → replicas) the cluster chooses the brokers."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}
    assignments: Mapping[int, Sequence[int]] = {}


class Created(NamedTuple):
    """A topic that was made; the counts are -1 where an old broker does not tell them."""

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
    """Make topics. When this returns, the broker asked shows them in its metadata."""
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

    results = await client.persist(attempt)
    if not validate_only:
        made = [name for name, result in results.items() if isinstance(result, Created)]
        await _wait_until_shown(client, dict.fromkeys(made, 1))
    return results


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, Refusal | None]:
    """Delete topics by name; None for each that is gone."""
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

    results = await client.persist(attempt)
    client.cluster.forget()
    return results


async def create_partitions(client: Client, counts: Mapping[str, int]) -> dict[str, Refusal | None]:
    """Let topics grow to so many partitions; None for each that did."""
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

    results = await client.persist(attempt)
    await _wait_until_shown(
        client, {name: counts[name] for name, refusal in results.items() if refusal is None}
    )
    return results


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | Refusal]:
    """Cut partitions off below an offset (-1: all there is); the new start offset of each."""

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

    return await client.persist(attempt)


async def describe_cluster(client: Client) -> ClusterDescription:
    """The cluster's id, controller and brokers."""
    response = await client.persist(lambda: client.ask_any(DescribeClusterRequest(), DescribeClusterResponse))
    raise_if_refused(response.error_code, response.error_message, "describe the cluster")
    brokers = (
        KnownBroker(each.broker_id, Address(each.host, each.port), each.rack) for each in response.brokers
    )
    return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers))


async def with_eligible(client: Client, topics: Sequence[KnownTopic]) -> list[KnownTopic]:
    """The same topics with the replicas that may lead though they are not in sync, where a broker can tell."""
    lacking = [topic.name for topic in topics if any(len(p.isr) < len(p.replicas) for p in topic.partitions)]
    try:
        found = await client.persist(lambda: _eligible(client, lacking)) if lacking else {}
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
    """What partitions take on the disks of all brokers that answer, replicas that are being moved left out."""
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

    return await client.persist(attempt)


def by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """The same partitions as the protocol groups them."""
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
    """A broker that is not the controller any more did nothing: the whole request may be sent again."""
    if code == ErrorCode.NOT_CONTROLLER:
        raise AnsweredError(Refusal(ErrorCode.NOT_CONTROLLER), about)


async def _wait_until_shown(client: Client, partition_counts: Mapping[str, int]) -> None:
    """Brokers learn of the controller's changes a moment later; the caller expects to find
    them.
    """
    if not partition_counts:
        return
    deadline = client.loop.time() + _VISIBLE_WITHIN_MS / 1000
    tries = 0
    while client.loop.time() < deadline:
        topics = await client.persist(lambda: client.refresh(partition_counts))
        if all(_is_shown(topic, partition_counts[topic.name]) for topic in topics):
            return
        await client.pause(tries)
        tries += 1


def _is_shown(topic: KnownTopic, partition_count: int) -> bool:
    has_all = len(topic.partitions) >= partition_count
    return topic.refusal is None and has_all and all(each.leader >= 0 for each in topic.partitions)
