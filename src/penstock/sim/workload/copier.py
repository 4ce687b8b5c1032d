"""A group member that copies what it reads, with its offsets in the same transaction: exactly once."""

from collections.abc import Sequence

from penstock.base.ids import TopicPartition
from penstock.client.group_consumer import GroupConsumer
from penstock.sim.checkers import Copy, Poll, SentMessage
from penstock.sim.coordination_actors import MemberPlan
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.member import MemberActor
from penstock.sim.workload.recording_client import RecordingClient
from penstock.sim.workload.transaction_runner import GroupOffsets, Part, TransactionRunner

_TIMEOUT_MS = 4_000


class Copier(MemberActor):
    """Runs one transaction per fetch response; after a failed one, a new session continues at the group's offsets."""

    def __init__(self, plan: MemberPlan, client: RecordingClient, journal: Journal) -> None:
        super().__init__(plan, client, journal)
        self._transacting = TransactionRunner(plan.name, client.sibling(), journal, timeout_ms=_TIMEOUT_MS)

    async def deal_with(self, consumer: GroupConsumer, polls: dict[TopicPartition, Poll]) -> None:
        sources = [seen.message for poll in polls.values() for seen in poll.seen]
        if sources:
            offsets = {partition: poll.next_position for partition, poll in polls.items()}
            await self._transacting.run(
                self._copies(sources),
                commits=True,
                group_offsets=GroupOffsets(self.plan.group, consumer.membership, offsets),
            )
        for partition, poll in polls.items():
            consumer.advance(partition, poll.next_position)

    def _copies(self, sources: Sequence[SentMessage]) -> list[Part]:
        by_partition: dict[int, list[SentMessage]] = {}
        for source in sources:
            copy = SentMessage(self.journal.number())
            self.journal.history.copies.append(Copy(self.plan.group, source.number, copy.number))
            by_partition.setdefault(source.number % self.plan.copy_partitions, []).append(copy)
        return [
            Part(TopicPartition(self.plan.copies_to, index), tuple(messages))
            for index, messages in by_partition.items()
        ]
