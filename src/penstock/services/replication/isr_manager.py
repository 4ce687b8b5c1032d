"""The leader's side of the ISR: it proposes to remove followers that lag, and to add followers that have caught up.

A leader that cannot write, because its disk has failed or is full, proposes an ISR without itself, so that the
controller elects another leader.

A follower's fetch that reaches the high watermark starts an expansion; lagging followers are looked for twice in
`replica.lag.time.max.ms`. All proposals go to the controller in one request (AlterPartition), one request at a time; a
request without an answer is repeated. The controller's side is `controller.rules.isr`.
"""

import asyncio
import logging
from typing import Final, NamedTuple, Protocol

from penstock.base.broker_settings import PENSTOCK_LOOP_SLICE_MS
from penstock.base.cluster_settings import REPLICA_LAG_TIME_MAX_MS
from penstock.base.errors import Refusal
from penstock.base.ids import TopicIdPartition
from penstock.cluster.metadata import MetadataImage
from penstock.core.isr_proposals import Proposal, ProposalOutcome, Proposals, Verdict, Verdicts
from penstock.services.configs import Configs
from penstock.services.replicas.leader import LeaderRole
from penstock.services.replicas.replica import Replica
from penstock.services.replicas.replica_manager import ReplicaManager
from penstock.world import World
from penstock.world.pacing import Pacer
from penstock.world.tasks import Tasks, repeat

log = logging.getLogger("penstock.replication")

_RETRY_S: Final = 0.1
# What the controller rejects because a follower is fenced, or has restarted, it would reject again at once.
_REJECTED_S: Final = 1.0


class IsrController(Protocol):
    """Asks the controller for its verdicts, on this broker or another."""

    async def alter_partitions(self, proposals: Proposals) -> Verdicts | Refusal:
        """The verdict on each proposal; a Refusal if the request as a whole was not answered."""
        ...


class _SentProposal(NamedTuple):
    leader: LeaderRole
    proposal: Proposal


class IsrManager:
    """Proposes ISRs of the partitions that this broker leads."""

    def __init__(
        self,
        world: World,
        image: MetadataImage,
        replicas: ReplicaManager,
        configs: Configs,
        controller: IsrController,
        *,
        node_id: int,
    ) -> None:
        self._world = world
        self._loop = world.loop
        self._image = image
        self._replicas = replicas
        self._configs = configs
        self._controller = controller
        self._node_id = node_id
        self._queued: dict[Replica, None] = {}  # to be examined, or to be proposed again
        self._rejected: dict[Replica, float] = {}  # not to be expanded before this time
        # A leader without room resigns again only after this time: if all disks are full, every broker would resign.
        self._resigned: dict[Replica, float] = {}
        self._has_queued = asyncio.Event()
        self._tasks = Tasks(world.loop)

    def start(self) -> None:
        shrinking = repeat(
            self._loop,
            "ISR shrinking",
            self._shrink_isrs,
            log=log,
            interval_s=lambda: self._lag_max_ms / 2000,
        )
        proposals = repeat(self._loop, "ISR proposals", self._send_queued, log=log, retry_s=_RETRY_S)
        self._tasks.start("ISR shrinking", shrinking)
        self._tasks.start("ISR proposals", proposals)

    async def stop(self) -> None:
        await self._tasks.stop()

    @property
    def _lag_max_ms(self) -> int:
        return self._configs.broker[REPLICA_LAG_TIME_MAX_MS]

    def maybe_expand_isr(self, partition: Replica) -> None:
        """Examine a partition of which a follower may have caught up."""
        if self._rejected.get(partition, 0.0) <= self._loop.time():
            self._queue(partition)

    def maybe_resign(self, partition: Replica) -> None:
        """Propose an ISR without this leader if it cannot write."""
        if self._has_to_resign(partition):
            self._queue(partition)

    def _has_to_resign(self, partition: Replica) -> bool:
        leader = partition.leader
        if leader is None or not leader.cannot_write:
            return False
        return leader.is_offline or self._resigned.get(partition, 0.0) <= self._loop.time()

    def _queue(self, partition: Replica) -> None:
        self._queued[partition] = None
        self._has_queued.set()

    async def _shrink_isrs(self) -> None:
        """Look for lagging followers once in every partition that this broker leads."""
        pacer = Pacer(self._loop, slice_ms=self._configs.broker[PENSTOCK_LOOP_SLICE_MS])
        now = self._loop.time()
        self._rejected = {partition: due for partition, due in self._rejected.items() if due > now}
        self._resigned = {partition: due for partition, due in self._resigned.items() if due > now}
        for partition in list(self._replicas.all()):
            leader = partition.leader
            if leader is not None and partition.is_replicated:
                self._propose(leader)
                if leader.leadership.proposal_to_send is not None:
                    self._queue(partition)
            await pacer.pause()

    def _propose(self, leader: LeaderRole) -> None:
        partition, agreed = leader.replica, leader.leadership.agreed
        proposal = leader.propose_isr(
            lag_max_ms=self._lag_max_ms,
            broker_epochs=self._broker_epoch,
            resigns=self._has_to_resign(partition),
        )
        if proposal is not None and self._node_id not in proposal.isr:
            why = partition.log.failed or "there is no room on its disk"
            log.warning(
                "%s: this leader cannot write (%s); asking the controller to elect one of %s",
                partition,
                why,
                proposal.isr,
            )
            self._resigned[partition] = self._loop.time() + self._lag_max_ms / 1000
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

    async def _send_queued(self) -> None:
        """Send the proposals of all queued partitions in one request."""
        await self._has_queued.wait()
        self._has_queued.clear()
        queued, self._queued = self._queued, {}
        sent: list[_SentProposal] = []
        for partition in queued:
            leader = partition.leader
            if leader is None:
                continue
            self._propose(leader)
            proposal = leader.leadership.proposal_to_send
            if proposal is not None:
                sent.append(_SentProposal(leader, proposal))
        if sent and not await self._send(sent):
            for each in sent:
                if each.leader.leadership.proposal_to_send is each.proposal:
                    self._queue(each.leader.replica)
            await self._loop.sleep(_RETRY_S)

    async def _send(self, sent: list[_SentProposal]) -> bool:
        """Whether the outcome of every proposal is known."""
        verdicts = await self._controller.alter_partitions(
            {_key(each.leader.replica): each.proposal for each in sent}
        )
        if isinstance(verdicts, Refusal):
            log.info("AlterPartition failed: %s (%s); retrying", verdicts.code.name, verdicts.message)
            return False
        outcomes = [self._apply(each, verdicts.get(_key(each.leader.replica))) for each in sent]
        return ProposalOutcome.UNKNOWN not in outcomes

    def _apply(self, sent: _SentProposal, verdict: Verdict | None) -> ProposalOutcome:
        leader, proposal = sent
        partition, leadership = leader.replica, leader.leadership
        if leader.is_over or leadership.pending is not proposal:
            return ProposalOutcome.SUPERSEDED  # newer metadata has arrived meanwhile
        outcome = ProposalOutcome.UNKNOWN if verdict is None else verdict.outcome
        if verdict is not None and outcome is ProposalOutcome.ACCEPTED:
            # Where majorities count, the controller may have changed the voters too, which a verdict does not name.
            is_complete = not partition.topic_rules.counts_majority or (
                verdict.partition_epoch == proposal.partition_epoch
            )
            if is_complete and verdict.leader_epoch == proposal.leader_epoch:
                leadership.settle()
                partition.change(leader.isr_state(verdict.isr, verdict.partition_epoch))
                self.maybe_resign(partition)  # it could not while this proposal was pending
                return outcome
            outcome = ProposalOutcome.SUPERSEDED
        leadership.answered(proposal, outcome)
        if outcome is ProposalOutcome.REJECTED:
            self._rejected[partition] = self._loop.time() + _REJECTED_S
            leader.advance_high_watermark()
        if verdict is not None and verdict.error:
            log.info("%s: the controller rejected ISR %s: %s", partition, proposal.isr, verdict.error.name)
        return outcome


def _key(partition: Replica) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, partition.index)
