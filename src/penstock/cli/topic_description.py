"""Describes topics from metadata, offsets, disks and configs."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import Refusal
from penstock.base.ids import TopicPartition, format_id
from penstock.cli.output import format_bytes, print_lines, table
from penstock.client.client import Client
from penstock.client.cluster import KnownPartition, KnownTopic
from penstock.client.configs import Config, Resource, ResourceType, describe_configs
from penstock.client.errors import AnsweredError, UnsupportedError
from penstock.client.offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from penstock.client.topics import replica_sizes, with_eligible


class PartitionDescription(NamedTuple):
    """A partition; None for what no broker could report."""

    known: KnownPartition
    start_offset: int | None
    end_offset: int | None
    size: int | None  # bytes of the largest replica


class TopicDescription(NamedTuple):
    topic: KnownTopic
    partitions: tuple[PartitionDescription, ...]
    own_configs: tuple[Config, ...]


async def describe(client: Client, topics: Sequence[KnownTopic]) -> list[TopicDescription]:
    """Describe these topics with few requests for all together."""
    if not topics:
        return []
    topics = await with_eligible(client, topics)
    led = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader >= 0
    ]
    starts = await _offsets(client, led, EARLIEST)
    ends = await _offsets(client, led, LATEST)
    sizes = await _sizes(client, topics)
    configs = await _own_configs(client, topics)
    return [
        TopicDescription(
            topic,
            tuple(
                PartitionDescription(each, starts.get(partition), ends.get(partition), sizes.get(partition))
                for each in topic.partitions
                for partition in [TopicPartition(topic.name, each.partition)]
            ),
            configs.get(topic.name, ()),
        )
        for topic in topics
    ]


def print_description(descriptions: Sequence[TopicDescription]) -> None:
    for number, (topic, partitions, own_configs) in enumerate(descriptions):
        facts = [("id", format_id(topic.topic_id)), ("partitions", str(len(partitions)))]
        if topic.is_internal:
            facts.append(("internal", "yes"))
        facts += [
            ("eligible", f"to lead {topic.name}-{known.partition}: {', '.join(map(str, known.elr))}")
            for known, *_ in partitions
            if known.elr
        ]
        facts += [("config", f"{config.name}={_value(config)}") for config in own_configs]
        print_lines(["", topic.name] if number else [topic.name])
        print_lines(f"  {name:<10}  {value}" for name, value in facts)
        print_lines(
            table(
                ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END", "SIZE"),
                [_row(each) for each in partitions],
                indent="  ",
            )
        )


def description_as_json(description: TopicDescription) -> dict[str, object]:
    topic, partitions, own_configs = description
    return {
        "name": topic.name,
        "id": format_id(topic.topic_id),
        "internal": topic.is_internal,
        "configs": {config.name: _value(config) for config in own_configs},
        "partitions": [
            {
                "partition": known.partition,
                "leader": known.leader if known.leader >= 0 else None,
                "leader_epoch": known.leader_epoch,
                "replicas": list(known.replicas),
                "isr": list(known.isr),
                "elr": list(known.elr),
                "offline": list(known.offline),
                "start_offset": start_offset,
                "end_offset": end_offset,
                "size_bytes": size,
            }
            for known, start_offset, end_offset, size in partitions
        ],
    }


def _row(description: PartitionDescription) -> tuple[object, ...]:
    known, start_offset, end_offset, size = description
    return (
        known.partition,
        known.leader if known.leader >= 0 else "none",
        known.leader_epoch if known.leader_epoch >= 0 else None,
        known.replicas,
        known.isr,
        start_offset,
        end_offset,
        None if size is None else format_bytes(size),
    )


def _value(config: Config) -> str | None:
    return "(hidden)" if config.is_sensitive else config.value


async def _offsets(
    client: Client, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    found = await list_offsets(client, dict.fromkeys(partitions, timestamp))
    return {partition: each.offset for partition, each in found.items() if isinstance(each, FoundOffset)}


async def _sizes(client: Client, topics: Sequence[KnownTopic]) -> dict[TopicPartition, int]:
    partitions = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
    try:
        replicas = await replica_sizes(client, partitions)
    except (UnsupportedError, AnsweredError):
        return {}  # an old broker, or no right to describe log directories: show the rest
    return {partition: max(each.size for each in sizes) for partition, sizes in replicas.items()}


async def _own_configs(client: Client, topics: Sequence[KnownTopic]) -> dict[str, tuple[Config, ...]]:
    resources = [Resource(ResourceType.TOPIC, topic.name) for topic in topics]
    own: dict[str, tuple[Config, ...]] = {}
    for resource, configs in (await describe_configs(client, resources)).items():
        if not isinstance(configs, Refusal):
            own[resource.name] = tuple(config for config in configs if config.is_own)
    return own
