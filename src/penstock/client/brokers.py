"""Brokers: what each of them has, and marking one as being drained.

Works with Apache Kafka, too, but for draining, which only Penstock's controller knows: it moves leaders and replicas
off a broker whose config `penstock.broker.drain` is true. DescribeLogDirs v1-v5.
"""

from typing import NamedTuple

from penstock.base.errors import Refusal
from penstock.base.ids import TopicPartition
from penstock.client.addresses import Address
from penstock.client.client import Client
from penstock.client.cluster import KnownPartition
from penstock.client.configs import Resource, ResourceType, alter_configs, describe_configs
from penstock.client.errors import ClientError
from penstock.client.reassignments import list_reassignments
from penstock.client.topics import describe_cluster
from penstock.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

DRAIN = "penstock.broker.drain"
BALANCE = "penstock.balance.enable"


class LogDirUsage(NamedTuple):
    """What a broker has on its disks; the room is -1 where an old broker does not tell."""

    size: int  # bytes of all its replicas
    total: int
    usable: int


class BrokerReplica(NamedTuple):
    """A partition that a broker has; `is_moving` while its replicas are being exchanged, here or elsewhere."""

    topic: str
    partition: KnownPartition
    is_moving: bool


class BrokerState(NamedTuple):
    """One broker; one that is offline has no address, and the contents of its disk are unknown."""

    node_id: int
    address: Address | None
    rack: str | None
    is_controller: bool
    is_draining: bool
    balances: bool  # whether its cluster moves leaders and replicas by itself
    replicas: tuple[BrokerReplica, ...]
    disk: LogDirUsage | None

    @property
    def is_alive(self) -> bool:
        return self.address is not None

    @property
    def leads(self) -> int:
        return sum(replica.partition.leader == self.node_id for replica in self.replicas)

    @property
    def size(self) -> int:
        return 0 if self.disk is None else self.disk.size


async def describe_brokers(client: Client) -> list[BrokerState]:
    """The brokers that are there, and those that are away and should have replicas; by node id."""
    described = await describe_cluster(client)
    topics = await client.refresh(None)
    moving = await list_reassignments(client)
    alive = {broker.node_id: broker for broker in described.brokers}
    replicas: dict[int, list[BrokerReplica]] = {node_id: [] for node_id in alive}
    for topic in topics:
        for partition in topic.partitions:
            replica = BrokerReplica(
                topic.name, partition, TopicPartition(topic.name, partition.partition) in moving
            )
            for node_id in partition.replicas:
                replicas.setdefault(node_id, []).append(replica)
    states = []
    for node_id in sorted(replicas):
        broker = alive.get(node_id)
        configs = {} if broker is None else await _configs(client, node_id)
        states.append(
            BrokerState(
                node_id,
                None if broker is None else broker.address,
                None if broker is None else broker.rack,
                node_id == described.controller_id,
                configs.get(DRAIN) == "true",
                configs.get(BALANCE) == "true",
                tuple(replicas[node_id]),
                None if broker is None else await _disk(client, node_id),
            )
        )
    return states


async def cluster_balances(client: Client) -> bool:
    """Whether the cluster moves leaders and replicas by itself; one broker has nowhere to move them."""
    brokers = await client.brokers()
    for broker in brokers if len(brokers) > 1 else ():
        if (await _configs(client, broker.node_id)).get(BALANCE) == "true":
            return True
    return False


async def mark_draining(client: Client, node_id: int, *, draining: bool) -> None:
    """Have a broker emptied from now on, or have it take its share again; AnsweredError if that is refused."""
    resource = Resource(ResourceType.BROKER, str(node_id))
    if draining:
        await alter_configs(client, resource, set_to={DRAIN: "true"}, by_controller=True)
    else:
        await alter_configs(client, resource, set_to={}, reset=[DRAIN], by_controller=True)


async def _configs(client: Client, node_id: int) -> dict[str, str | None]:
    resource = Resource(ResourceType.BROKER, str(node_id))
    try:
        found = (await describe_configs(client, [resource]))[resource]
    except ClientError:
        return {}  # it went away just now
    return {} if isinstance(found, Refusal) else {config.name: config.value for config in found}


async def _disk(client: Client, node_id: int) -> LogDirUsage | None:
    try:
        answer = await client.ask_node(node_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    except ClientError:
        return None
    return LogDirUsage(
        sum(
            partition.partition_size
            for result in answer.results
            for topic in result.topics
            for partition in topic.partitions
        ),
        sum(result.total_bytes for result in answer.results),
        sum(result.usable_bytes for result in answer.results),
    )
