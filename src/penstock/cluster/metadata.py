"""The cluster's metadata: topics, partitions, configs and brokers, as values, and the image a broker holds.

Values are immutable; a change makes a new one. The store's nodes hold them as JSON:

    /cluster              {"cluster_id": …}
    /topics/NAME          one node per topic with all its partitions and configs
    /broker-configs/ID    dynamic configs of one broker, or of all ("default")
    /group-configs/NAME   configs of one group; the name in base64, as it may hold any character
    /producer-ids         {"next": …}, the first producer id that is not allocated
    /features             the finalised feature levels; missing in metadata of versions without features
    /peer-secret          the secret by which brokers authenticate each other (`cluster/peer_secret.py`)
    /deletions/NUMBER.ID  an empty node for each of the last deleted topics (`cluster/topic_deletions.py`)

And, in a cluster:

    /controller-epoch     the number of controller elections; every write of a controller checks this node's version
    /controller           {"node_id": …, "epoch": …}, ephemeral
    /brokers/ID           a broker's registration with its broker epoch, and whether it is fenced
    /live/ID              ephemeral: exists as long as the broker's session
    /deltas/NUMBER        the last changes, numbered without gaps
    /suspects/ID.EPOCH.BY broker BY was refused a connection to the address of broker ID
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from penstock.base.cluster_settings import PENSTOCK_BROKER_DRAIN
from penstock.base.features import RANGES_BEFORE, LevelRange
from penstock.base.ids import INTERNAL_TOPICS, TopicId, format_id, parse_id
from penstock.base.topic_settings import PENSTOCK_ACK_QUORUM
from penstock.cluster.features import Features
from penstock.cluster.topic_deletions import Deletions

BROKERS = "/brokers"
LIVE = "/live"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller-epoch"
DELTAS = "/deltas"
SUSPECTS = "/suspects"
TOPICS = "/topics"
BROKER_CONFIGS = "/broker-configs"
GROUP_CONFIGS = "/group-configs"
CLUSTER = "/cluster"
PRODUCER_IDS = "/producer-ids"
FEATURES = "/features"
DELETIONS = "/deletions"
PEER_SECRET = "/peer-secret"

PRODUCER_ID_BLOCK = 1000


NO_LEADER = -1


class PartitionState(NamedTuple):
    """The leader, replicas and ISR. `partition_epoch` grows with every change, `leader_epoch` with every leader.

    During a reassignment, `replicas` are the target replicas, followed by those that are removed at its end.
    """

    leader: int  # NO_LEADER if no replica may lead
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    adding: tuple[int, ...] = ()  # replicas that a reassignment adds and that have not caught up yet
    removing: tuple[int, ...] = ()  # replicas that it removes when those have caught up
    # Replicas that left the ISR when it was below min.insync.replicas, or brought it below: they have all committed
    # records as long as it stays below. One of them is elected when no member of the ISR can be.
    elr: tuple[int, ...] = ()
    doubtful: tuple[
        int, ...
    ] = ()  # with penstock.ack.quorum=majority: replicas that may have lost records they acknowledged

    def changed(self, **fields: Any) -> "PartitionState":
        """A copy with other fields and the next partition epoch."""
        return self._replace(partition_epoch=self.partition_epoch + 1, **fields)

    def needed_isr(self, min_isr: int) -> int:
        """The size that the ISR needs for records to be committed: `min_isr`, the topic's `min.insync.replicas`, but
        not more than there are replicas without those that are being added.
        """
        return min(min_isr, len(self.replicas) - len(self.adding))

    @property
    def present_replicas(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment is adding."""
        return tuple(each for each in self.replicas if each not in self.adding)

    @property
    def complete_replicas(self) -> tuple[int, ...]:
        """The replicas that have everything below the high watermark, as far as the metadata say: ISR and ELR."""
        return tuple(each for each in self.replicas if each in self.isr or each in self.elr)

    def elr_after(self, isr: tuple[int, ...], *, min_isr: int) -> tuple[int, ...]:
        """The ELR of this partition with another ISR: all replicas that were complete, if the new ISR is too small to
        commit anything; else none.
        """
        if len(isr) >= self.needed_isr(min_isr):
            return ()
        return tuple(each for each in self.complete_replicas if each not in isr)


_ALWAYS_WRITTEN = 5


def encode_partition(partition: PartitionState) -> list[Any]:
    """A JSON array, without the empty fields at its end."""
    fields = list(partition)
    while len(fields) > _ALWAYS_WRITTEN and not fields[-1]:
        del fields[-1]
    return fields


def decode_partition(fields: Sequence[Any]) -> PartitionState:
    leader, leader_epoch, replicas, isr, partition_epoch, *rest = fields
    return PartitionState(
        leader, leader_epoch, tuple(replicas), tuple(isr), partition_epoch, *map(tuple, rest)
    )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions and configs, as the controller wrote it."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def counts_majority(self) -> bool:
        """Whether acks=all means a majority of the replicas (`penstock.ack.quorum`) instead of the ISR."""
        return self.configs.get(PENSTOCK_ACK_QUORUM.name) == "majority"

    def encode(self) -> bytes:
        """The node's content."""
        document = {
            "version": 1,
            "topic_id": format_id(self.topic_id),
            "partitions": [encode_partition(partition) for partition in self.partitions],
            "configs": dict(self.configs),
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> "Topic":
        document = json.loads(data)
        partitions = tuple(map(decode_partition, document["partitions"]))
        return cls(name, parse_id(document["topic_id"]), partitions, document["configs"])

    def with_partitions(self, added: tuple[PartitionState, ...]) -> "Topic":
        return replace(self, partitions=self.partitions + added)

    def with_new_leader_epochs(self) -> "Topic":
        return replace(
            self,
            partitions=tuple(p.changed(leader_epoch=p.leader_epoch + 1) for p in self.partitions),
        )

    def with_configs(self, configs: Mapping[str, str]) -> "Topic":
        return replace(self, configs=configs)


class BrokerAddress(NamedTuple):
    """The address of a broker's listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as it registered: node id, rack, and its address by listener name.

    `epoch` is the broker epoch; it grows with every registration, and requests with an older one are stale. A fenced
    broker is registered, but leads no partition and does not count as alive.
    """

    node_id: int
    rack: str | None
    addresses: Mapping[str, tuple[str, int]]
    epoch: int = 0
    fenced: bool = False
    incarnation: str = ""  # the id of its data directory
    peer_listener: str = ""  # the listener that other brokers use
    features: Mapping[str, LevelRange] = field(
        default_factory=lambda: RANGES_BEFORE
    )  # the levels that it supports
    is_new: bool = False  # the controller has not acted on this registration
    # What the controller has to know of a new registration; all true once it has acted.
    keeps_all: bool = True  # the broker has all records that it acknowledged under its last registration
    same_directory: bool = True  # and the same data directory
    same_process: bool = True  # and it is the same process, with what it has in memory

    def document(self) -> dict[str, Any]:
        """The registration as a JSON object."""
        return {
            "version": 1,
            "node_id": self.node_id,
            "epoch": self.epoch,
            "fenced": self.fenced,
            "is_new": self.is_new,
            "keeps_all": self.keeps_all,
            "same_directory": self.same_directory,
            "same_process": self.same_process,
            "incarnation": self.incarnation,
            "rack": self.rack,
            "peer_listener": self.peer_listener,
            "addresses": {name: list(address) for name, address in self.addresses.items()},
            "features": {name: list(levels) for name, levels in self.features.items()},
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> "BrokerRegistration":
        return cls(
            node_id=document["node_id"],
            rack=document["rack"],
            addresses={name: (host, port) for name, (host, port) in document["addresses"].items()},
            epoch=document["epoch"],
            fenced=document["fenced"],
            incarnation=document["incarnation"],
            peer_listener=document["peer_listener"],
            is_new=document["is_new"],
            keeps_all=document["keeps_all"],
            same_directory=document["same_directory"],
            same_process=document["same_process"],
            features={name: LevelRange(*levels) for name, levels in document["features"].items()}
            if "features" in document
            else RANGES_BEFORE,
        )

    def encode(self) -> bytes:
        """The node's content."""
        return json.dumps(self.document(), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> "BrokerRegistration":
        return cls.of_document(json.loads(data))

    def address(self, listener: str) -> BrokerAddress | None:
        found = self.addresses.get(listener)
        return None if found is None else BrokerAddress(self.node_id, *found, self.rack)


class MetadataImage:
    """The metadata as one broker has loaded them. Only the `apply_*` methods change them."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id = -1
        self.features = Features()
        self.deletions = Deletions()
        self.brokers: dict[int, BrokerRegistration] = {}
        self.broker_configs: dict[str, Mapping[str, str]] = {}
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.topics_version = 0  # grows whenever a topic is created, changed or deleted
        self.on_topic_deleted: list[Callable[[str], None]] = []
        self._topics: dict[str, Topic] = {}
        self._names: dict[bytes, str] = {}
        self._look_alikes: dict[str, str] = {}

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def namesake(self, name: str) -> str | None:
        """Another topic that differs from `name` only in '.' and '_', which metric names cannot tell apart."""
        found = self._look_alikes.get(_flat(name))
        return None if found == name else found

    def addresses(self, listener: str) -> list[BrokerAddress]:
        """The brokers that a client of that listener can reach, by node id."""
        found = (self.brokers[node_id].address(listener) for node_id in self.alive())
        return [address for address in found if address is not None]

    def alive(self) -> list[int]:
        """The node ids of the brokers that are not fenced, in order."""
        return [node_id for node_id in sorted(self.brokers) if not self.brokers[node_id].fenced]

    def is_draining(self, node_id: int) -> bool:
        """Whether a broker's dynamic config `penstock.broker.drain` is on."""
        value = self.broker_configs.get(str(node_id), {}).get(PENSTOCK_BROKER_DRAIN.name)
        return value is not None and PENSTOCK_BROKER_DRAIN.parse(value)

    def assignable(self) -> list[int]:
        """The node ids of the brokers that new replicas may be placed on, in order."""
        return [node_id for node_id in self.alive() if not self.is_draining(node_id)]

    def topics(self) -> Iterator[Topic]:
        """Every topic, by name."""
        return (self._topics[name] for name in sorted(self._topics))

    @property
    def topic_count(self) -> int:
        return len(self._topics)

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self._topics.values())

    @property
    def replica_count(self) -> int:
        """The number of replicas of all partitions, counting those of a topic's first partition for each of them."""
        return sum(
            len(topic.partitions) * len(topic.partitions[0].replicas)
            for topic in self._topics.values()
            if topic.partitions
        )

    def apply_topic(self, topic: Topic) -> None:
        """Add or replace a topic."""
        self.topics_version += 1
        self._topics[topic.name] = topic
        self._names[topic.topic_id] = topic.name
        self._look_alikes[_flat(topic.name)] = topic.name

    def apply_topic_deleted(self, name: str) -> None:
        topic = self._topics.pop(name)
        del self._names[topic.topic_id]
        del self._look_alikes[_flat(name)]
        self.topics_version += 1
        for listener in self.on_topic_deleted:
            listener(name)

    def apply_broker(self, broker: BrokerRegistration) -> None:
        self.brokers[broker.node_id] = broker

    def apply_features(self, features: Features) -> None:
        self.features = features

    def apply_broker_configs(self, key: str, configs: Mapping[str, str]) -> None:
        self.broker_configs[key] = configs

    def apply_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Set the configs of a group, or remove them if they are empty."""
        if configs:
            self.group_configs[group_id] = configs
        else:
            self.group_configs.pop(group_id, None)


def _flat(name: str) -> str:
    return name.replace(".", "_")


def group_configs_path(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{urlsafe_b64encode(group_id.encode()).decode().rstrip('=')}"


def group_of_configs_path(name: str) -> str:
    return urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return json.dumps(dict(configs), separators=(",", ":")).encode()


def decode_configs(data: bytes) -> dict[str, str]:
    configs: dict[str, str] = json.loads(data)
    return configs


def encode_number(number: int) -> bytes:
    return json.dumps({"next": number}).encode()


def decode_number(data: bytes) -> int:
    return int(json.loads(data)["next"])
