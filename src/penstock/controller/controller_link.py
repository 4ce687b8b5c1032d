"""This broker's own requests to the controller, which may be this broker or another one.

Requests of clients to the controller are forwarded as they came (`apis.forwarding`).
"""

from typing import TypeVar

from penstock.base.errors import ErrorCode, Refusal
from penstock.base.ids import TopicIdPartition
from penstock.client.errors import ClientError, UnreachableError
from penstock.cluster.metadata import MetadataImage, Topic
from penstock.cluster.peers import Peers
from penstock.cluster.topic_spec import TopicSpec
from penstock.controller.controller import NOT_CONTROLLER, Controller
from penstock.core.isr_proposals import UNKNOWN_EPOCH, Proposal, Proposals, Verdict, Verdicts
from penstock.schema.words import Message
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    TopicData,
)
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

R = TypeVar("R", bound=Message)

_CREATE_TIMEOUT_MS = 10_000


class ControllerLink:
    """Requests to the controller, on this broker or over a connection to another."""

    def __init__(self, image: MetadataImage, controller: Controller, peers: Peers, *, node_id: int) -> None:
        self._image = image
        self._controller = controller
        self._peers = peers
        self._node_id = node_id

    @property
    def is_here(self) -> bool:
        return self._controller.is_active

    @property
    def can_ask(self) -> bool:
        """Whether another broker is the controller, as far as this one knows."""
        return self._image.controller_id not in (-1, self._node_id)

    async def ask(self, request: Message, response: type[R], *, version_max: int | None = None) -> R:
        """Send a request to the controller on another broker; a ClientError if there is no response."""
        if not self.can_ask:
            raise UnreachableError("there is no controller now; one is being elected")
        return await self._peers.ask(self._image.controller_id, request, response, version_max=version_max)

    async def alter_partitions(self, proposals: Proposals) -> Verdicts | Refusal:
        """The controller's verdicts on ISRs that this broker proposes for partitions it leads."""
        own = self._image.brokers.get(self._node_id)
        own_epoch = UNKNOWN_EPOCH if own is None or own.fenced else own.epoch
        if self.is_here or not self.can_ask:
            return await self._controller.alter_partitions(self._node_id, proposals, broker_epoch=own_epoch)
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=own_epoch, topics=_proposed_topics(proposals)
        )
        try:
            answer = await self.ask(request, AlterPartitionResponse)
        except ClientError as error:
            return Refusal(ErrorCode.NOT_CONTROLLER, f"the controller cannot be asked: {error}")
        if answer.error_code:
            return Refusal(ErrorCode(answer.error_code))
        return {
            TopicIdPartition(topic.topic_id, partition.partition_index): _verdict(partition)
            for topic in answer.topics
            for partition in topic.partitions
        }

    async def create_topic(self, new: TopicSpec) -> Topic | Refusal:
        """Create a topic for the broker's own use. Metadata of a topic created elsewhere may lag here: then a Refusal
        with LEADER_NOT_AVAILABLE, as in a Metadata response for it.
        """
        if self.is_here or not self.can_ask:
            return await self._controller.create_topic(new)
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=new.name,
                    num_partitions=new.partition_count,
                    replication_factor=new.replication_factor,
                    configs=[
                        CreatableTopicConfig(name=name, value=value) for name, value in new.configs.items()
                    ],
                )
            ],
            timeout_ms=_CREATE_TIMEOUT_MS,
        )
        try:
            (answer,) = (await self.ask(request, CreateTopicsResponse)).topics
        except ClientError as error:
            return Refusal(ErrorCode.NOT_CONTROLLER, f"the controller cannot be asked: {error}")
        known = self._image.topic(new.name)
        if known is not None:
            return known
        if answer.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return Refusal(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"topic {new.name} was created, but is not in this broker's metadata yet",
            )
        return Refusal(ErrorCode(answer.error_code), answer.error_message)

    async def ask_to_leave(self, broker_epoch: int) -> int:
        """Ask for a controlled shutdown: 0 when this broker leads no partition that another could lead."""
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id, broker_epoch=broker_epoch, want_shut_down=True
        )
        answer = await self.ask(request, BrokerHeartbeatResponse)
        return 0 if answer.should_shut_down else 1

    async def allocate_producer_ids(self) -> int | Refusal:
        """Allocate a block of producer ids; returns the first of them."""
        if self.is_here or not self.can_ask:
            return await self._controller.allocate_producer_ids()
        broker = self._image.brokers[self._node_id]
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=broker.epoch)
        try:
            answer = await self.ask(request, AllocateProducerIdsResponse)
        except ClientError as error:
            return Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the controller cannot be asked: {error}")
        if answer.error_code:
            return Refusal(ErrorCode(answer.error_code), NOT_CONTROLLER.message)
        return answer.producer_id_start


def _proposed_topics(proposals: Proposals) -> list[TopicData]:
    topics: dict[bytes, TopicData] = {}
    for (topic_id, index), proposal in proposals.items():
        topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
        topic.partitions.append(_proposed_partition(index, proposal))
    return list(topics.values())


def _proposed_partition(index: int, proposal: Proposal) -> PartitionData:
    members = zip(proposal.isr, proposal.broker_epochs, strict=True)
    return PartitionData(
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=node_id, broker_epoch=epoch) for node_id, epoch in members
        ],
        partition_epoch=proposal.partition_epoch,
    )


def _verdict(answer: PartitionDataResponse) -> Verdict:
    return Verdict(
        ErrorCode(answer.error_code),
        leader=answer.leader_id,
        leader_epoch=answer.leader_epoch,
        isr=tuple(answer.isr),
        partition_epoch=answer.partition_epoch,
    )
