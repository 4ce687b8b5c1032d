"""Keeping in-sync sets: followers that fall behind are proposed to leave, those that have caught up to join.

A leader that cannot write, because its disk has failed or is full, proposes to leave itself: then another one leads.

Who is to join says the fetch that shows it; who is to leave is looked for twice in `replica.lag.time.max.ms`. All
proposals go to the controller in one request, one request at a time. What cannot be asked is asked again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from penstock.base.broker_settings import PENSTOCK_LOOP_SLICE_MS
from penstock.base.cluster_settings import REPLICA_LAG_TIME_MAX_MS
from penstock.base.errors import ErrorCode
from penstock.client.errors import ClientError
from penstock.cluster.metadata import MetadataImage
from penstock.core.replication import Leadership, Proposal, ProposalOutcome, verdict
from penstock.services.configs import Configs
from penstock.services.partition import Partition
from penstock.services.partitions import Partitions
from penstock.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    TopicData,
)
from penstock.world import World
from penstock.world.pacing import Pacer

log = logging.getLogger("penstock.replication")

_RETRY_S: Final = 0.1
# A controller that says no (a follower is fenced, or has been replaced) says no for a while.
_REFUSED_S: Final = 1.0


class AlterPartitionSender(Protocol):
    """Whoever asks the controller."""

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The controller's answer; a ClientError if there is none."""
        ...


class _Asked:
    """A proposal under way."""

    __slots__ = ("leadership", "partition", "proposal")

    def __init__(self, partition: Partition, leadership: Leadership, proposal: Proposal) -> None:
        self.partition = partition
        self.leadership = leadership
        self.proposal = proposal


class IsrManager:
    """Proposes in-sync sets of the partitions that are led here."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        partitions: Partitions,
        configs: Configs,
        controller: AlterPartitionSender,
        *,
        node_id: int,
    ) -> None:
        self._world = world
        self._loop = world.loop
        self._image = image
        self._partitions = partitions
        self._configs = configs
        self._controller = controller
        self._node_id = node_id
        self._wanted: dict[Partition, None] = {}  # something may be to propose, or to ask again
        self._refused: dict[Partition, float] = {}  # until when not to propose again
        # Until when a leader without room does not give up again: where all disks are full, nobody is the better one.
        self._gave_up: dict[Partition, float] = {}
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            self._loop.create_task(self._repeat(self._look_for_laggards), name="in-sync laggards"),
            self._loop.create_task(self._repeat(self._ask), name="in-sync proposals"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def may_join(self, partition: Partition) -> None:
        """A follower of the partition may be in sync now."""
        if self._refused.get(partition, 0.0) <= self._loop.time():
            self._want(partition)

    def cannot_write(self, partition: Partition) -> None:
        """Another replica of the partition had better lead."""
        if self._gives_up(partition):
            self._want(partition)

    def _gives_up(self, partition: Partition) -> bool:
        if not partition.cannot_write:
            return False
        return partition.log.failed is not None or self._gave_up.get(partition, 0.0) <= self._loop.time()

    def _want(self, partition: Partition) -> None:
        self._wanted[partition] = None
        self._news.set()

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                log.exception("ISR maintenance failed; retrying")
                await self._loop.sleep(_RETRY_S)

    # Who is to leave.

    async def _look_for_laggards(self) -> None:
        await self._loop.sleep(self._configs.broker[REPLICA_LAG_TIME_MAX_MS] / 2000)
        pacer = Pacer(self._loop, slice_ms=self._configs.broker[PENSTOCK_LOOP_SLICE_MS])
        now = self._loop.time()
        self._refused = {partition: due for partition, due in self._refused.items() if due > now}
        self._gave_up = {partition: due for partition, due in self._gave_up.items() if due > now}
        for partition in list(self._partitions.all()):
            leadership = partition.leadership
            if leadership is not None and len(leadership.agreed.replicas) > 1:
                self._propose(partition, leadership)
                if leadership.to_send is not None:
                    self._want(partition)
            await pacer.pause()

    def _propose(self, partition: Partition, leadership: Leadership) -> None:
        agreed = leadership.agreed
        lag_max_ms = self._configs.broker[REPLICA_LAG_TIME_MAX_MS]
        proposal = leadership.propose(
            high_watermark=partition.high_watermark,
            leader_end=partition.log.end_offset,
            now_ms=int(self._loop.time() * 1000),
            lag_max_ms=lag_max_ms,
            broker_epochs=self._broker_epoch,
            gives_up=self._gives_up(partition),
            own_offset=partition.counted_offset,
        )
        if proposal is not None and self._node_id not in proposal.isr:
            why = partition.log.failed or "there is no room on its disk"
            log.warning(
                "%s: this leader cannot write (%s); asking the controller to elect one of %s",
                partition,
                why,
                proposal.isr,
            )
            self._gave_up[partition] = self._loop.time() + lag_max_ms / 1000
        elif proposal is not None:
            log.info(
                "%s: proposing ISR %s; it is %s",
                partition,
                list(proposal.isr),
                list(agreed.isr),
            )

    def _broker_epoch(self, node_id: int) -> int | None:
        broker = self._image.brokers.get(node_id)
        return None if broker is None or broker.fenced else broker.epoch

    # Asking.

    async def _ask(self) -> None:
        await self._news.wait()
        self._news.clear()
        wanted, self._wanted = self._wanted, {}
        asked: list[_Asked] = []
        for partition in wanted:
            leadership = partition.leadership
            if leadership is None:
                continue
            self._propose(partition, leadership)
            proposal = leadership.to_send
            if proposal is not None:
                asked.append(_Asked(partition, leadership, proposal))
        if asked and not await self._send(asked):
            for each in asked:
                if each.leadership.to_send is each.proposal:
                    self._want(each.partition)
            await self._loop.sleep(_RETRY_S)

    async def _send(self, asked: list[_Asked]) -> bool:
        """Whether there was an answer for everything."""
        try:
            response = await self._controller.alter_partition(self._request(asked))
        except ClientError as error:
            log.info("AlterPartition failed: %s; retrying", error)
            return False
        if response.error_code:
            log.info("AlterPartition answered with %s; retrying", ErrorCode(response.error_code).name)
            return False
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        outcomes = [
            self._apply(each, answers.get((each.partition.topic_id, each.partition.index))) for each in asked
        ]
        return ProposalOutcome.UNKNOWN not in outcomes

    def _request(self, asked: list[_Asked]) -> AlterPartitionRequest:
        topics: dict[bytes, TopicData] = {}
        for each in asked:
            proposal = each.proposal
            members = zip(proposal.isr, proposal.broker_epochs, strict=True)
            topic = topics.setdefault(each.partition.topic_id, TopicData(topic_id=each.partition.topic_id))
            topic.partitions.append(
                PartitionData(
                    partition_index=each.partition.index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=id_, broker_epoch=epoch) for id_, epoch in members
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        own_epoch = self._broker_epoch(self._node_id)
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=-1 if own_epoch is None else own_epoch,
            topics=list(topics.values()),
        )

    def _apply(self, asked: _Asked, answer: PartitionDataResponse | None) -> ProposalOutcome:
        partition, leadership = asked.partition, asked.leadership
        outcome = ProposalOutcome.UNKNOWN if answer is None else verdict(answer.error_code)
        if partition.leadership is not leadership or leadership.pending is not asked.proposal:
            return ProposalOutcome.OVERTAKEN  # newer metadata has settled it
        if answer is not None and outcome is ProposalOutcome.AGREED:
            # Where majorities count, an answer can mean other voters, which it does not name: the metadata does.
            names_all = not partition.topic_rules.counts_majority or (
                answer.partition_epoch == asked.proposal.partition_epoch
            )
            if names_all and answer.leader_epoch == asked.proposal.leader_epoch:
                leadership.settle()
                partition.change(partition.isr_state(tuple(answer.isr), answer.partition_epoch))
                self.cannot_write(partition)  # if it is so: while this was pending, it had to wait
                return outcome
            outcome = ProposalOutcome.OVERTAKEN
        leadership.answered(asked.proposal, outcome)
        if outcome is ProposalOutcome.REFUSED:
            self._refused[partition] = self._loop.time() + _REFUSED_S
            partition.advance()
        if answer is not None and answer.error_code:
            name = ErrorCode(answer.error_code).name
            log.info("%s: the controller rejected ISR %s: %s", partition, asked.proposal.isr, name)
        return outcome
