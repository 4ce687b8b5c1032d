"""Brokers: their replicas and disk usage, and draining one.

Works with Apache Kafka too, except for draining: only Penstock's controller moves leaders and replicas off a broker
whose config `penstock.broker.drain` is true. DescribeLogDirs v1-v5.
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
    """Bytes used and free on a broker's disks; free is -1 if an old broker does not report it."""

    size: int  # bytes of all its replicas
    total: int
    usable: int


class BrokerReplica(NamedTuple):
    """A replica on a broker; `is_moving` while its partition is being reassigned."""

    topic: str
    partition: KnownPartition
    is_moving: bool


class BrokerState(NamedTuple):
    """One broker; an offline one has no address, and its disk usage is unknown."""

    node_id: int
    address: Address | None
    rack: str | None
    is_controller: bool
    is_draining: bool
    balances: bool  # whether its cluster balances leaders and replicas itself
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
    """The online brokers, and the offline ones that have replicas assigned; by node id."""
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
    """Whether the cluster balances leaders and replicas itself; False for a single broker."""
    brokers = await client.brokers()
    for broker in brokers if len(brokers) > 1 else ():
        if (await _configs(client, broker.node_id)).get(BALANCE) == "true":
            return True
    return False


async def mark_draining(client: Client, node_id: int, *, draining: bool) -> None:
    """Start or stop draining a broker; AnsweredError if the controller refuses."""
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
        return {}  # it has gone offline since
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
