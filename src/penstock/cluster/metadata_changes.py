"""A change of the metadata that the controller decided: as operations on the store, and as a delta for the brokers.

The *delta* of a change is a JSON document that holds only what changed: of a topic of thousands of partitions, only
those with a new leader. A broker decodes it into a `Change` with the help of its own image.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.base.ids import format_id, parse_id
from penstock.cluster.features import Features
from penstock.cluster.metadata import (
    BROKER_CONFIGS,
    BROKERS,
    DELETIONS,
    FEATURES,
    TOPICS,
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    Topic,
    decode_partition,
    encode_configs,
    encode_partition,
    group_configs_path,
)
from penstock.cluster.topic_deletions import Deletion
from penstock.world.store import Create, Delete, Operation, Set


@dataclass(frozen=True)
class Change:
    """What the change sets and deletes. It holds changed topics and brokers whole, in their new state."""

    topics: Mapping[str, Topic] = field(default_factory=dict)
    deleted: Mapping[str, Deletion] = field(default_factory=dict)  # by the names of the topics
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    features: Features | None = None

    @property
    def is_empty(self) -> bool:
        return self == Change()

    def operations(self, image: MetadataImage) -> list[Operation]:
        """The operations on a store that holds the metadata of `image`."""
        operations: list[Operation] = [Delete(f"{TOPICS}/{name}") for name in self.deleted]
        operations += [Create(f"{DELETIONS}/{each.node}") for each in self.deleted.values()]
        for topic in self.topics.values():
            known = topic.name not in self.deleted and image.topic(topic.name) is not None
            operations.append(_put(f"{TOPICS}/{topic.name}", topic.encode(), known=known))
        for broker in self.brokers.values():
            operations.append(Set(f"{BROKERS}/{broker.node_id}", broker.encode()))
        for key, configs in self.broker_configs.items():
            path = f"{BROKER_CONFIGS}/{key or 'default'}"
            operations.append(_put(path, encode_configs(configs), known=key in image.broker_configs))
        for group_id, configs in self.group_configs.items():
            path, known = group_configs_path(group_id), group_id in image.group_configs
            if configs:
                operations.append(_put(path, encode_configs(configs), known=known))
            elif known:
                operations.append(Delete(path))
        if self.features is not None:
            operations.append(_put(FEATURES, self.features.encode(), known=image.features.epoch > 0))
        return operations

    def encode(self, image: MetadataImage) -> bytes:
        """The delta, for brokers whose image is equal to `image`."""
        document: dict[str, Any] = {"version": 1}
        if self.deleted:
            # Versions of Penstock without deletion records iterate over this object as over a list of names.
            document["deleted"] = {name: each.node for name, each in self.deleted.items()}
        if self.topics:
            document["topics"] = [
                _topic_delta(topic, None if topic.name in self.deleted else image.topic(topic.name))
                for topic in self.topics.values()
            ]
        if self.brokers:
            document["brokers"] = [broker.document() for broker in self.brokers.values()]
        if self.broker_configs:
            document["broker_configs"] = {key: dict(value) for key, value in self.broker_configs.items()}
        if self.group_configs:
            document["group_configs"] = {key: dict(value) for key, value in self.group_configs.items()}
        if self.features is not None:
            document["features"] = self.features.document()
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes, image: MetadataImage) -> "Change":
        document = json.loads(data)
        deleted = _decode_deleted(document.get("deleted", {}), image)
        topics = [_changed_topic(each, image, deleted) for each in document.get("topics", ())]
        brokers = [BrokerRegistration.of_document(each) for each in document.get("brokers", ())]
        return cls(
            topics={topic.name: topic for topic in topics},
            deleted=deleted,
            brokers={broker.node_id: broker for broker in brokers},
            broker_configs=document.get("broker_configs", {}),
            group_configs=document.get("group_configs", {}),
            features=Features.of_document(document["features"]) if "features" in document else None,
        )


def difference(before: MetadataImage, after: MetadataImage) -> Change:
    """The change from one image to another: for a broker that missed deltas and read the whole metadata again."""
    topics = {topic.name: topic for topic in after.topics() if before.topic(topic.name) != topic}
    gone = [topic for topic in before.topics() if after.topic_by_id(topic.topic_id) is None]
    groups = {
        group_id: after.group_configs.get(group_id, {})
        for group_id in (*before.group_configs, *after.group_configs)
    }
    return Change(
        topics=topics,
        deleted={topic.name: after.deletions.of(topic.topic_id) for topic in gone},
        brokers={
            node_id: broker
            for node_id, broker in after.brokers.items()
            if before.brokers.get(node_id) != broker
        },
        broker_configs={
            key: configs
            for key, configs in after.broker_configs.items()
            if before.broker_configs.get(key) != configs
        },
        group_configs={
            group_id: configs
            for group_id, configs in groups.items()
            if before.group_configs.get(group_id, {}) != configs
        },
        features=None if before.features == after.features else after.features,
    )


def _decode_deleted(deleted: Mapping[str, str] | list[str], image: MetadataImage) -> dict[str, Deletion]:
    """The deletions of a delta. A list of names is from a version of Penstock without deletion records."""
    if isinstance(deleted, list):
        topics = [topic for topic in map(image.topic, deleted) if topic is not None]
        return {topic.name: Deletion(topic.topic_id, None) for topic in topics}
    found = {name: Deletion.of_node(node) for name, node in deleted.items()}
    return {name: each for name, each in found.items() if each is not None}


def _put(path: str, data: bytes, *, known: bool) -> Operation:
    return Set(path, data) if known else Create(path, data)


def _topic_delta(topic: Topic, before: Topic | None) -> dict[str, Any]:
    """A topic's part of a delta: its id, the partitions that changed, and its configs if they did."""
    known: tuple[PartitionState, ...] = () if before is None else before.partitions
    delta: dict[str, Any] = {
        "name": topic.name,
        "topic_id": format_id(topic.topic_id),
        "partitions": [
            [index, encode_partition(partition)]
            for index, partition in enumerate(topic.partitions)
            if index >= len(known) or known[index] != partition
        ],
    }
    if before is None or before.configs != topic.configs:
        delta["configs"] = dict(topic.configs)
    return delta


def _changed_topic(delta: Mapping[str, Any], image: MetadataImage, deleted: Mapping[str, Deletion]) -> Topic:
    name = delta["name"]
    known = None if name in deleted else image.topic(name)
    if known is None:
        known = Topic(name, parse_id(delta["topic_id"]), ())
    partitions = list(known.partitions)
    for index, fields in delta["partitions"]:
        partition = decode_partition(fields)
        if index < len(partitions):
            partitions[index] = partition
        else:
            assert index == len(partitions), f"partition {index} of {name} comes before {len(partitions)}"
            partitions.append(partition)
    return replace(known, partitions=tuple(partitions), configs=delta.get("configs", known.configs))
