"""A transactional producer: does the transactions of a plan, whole."""

from penstock.base.ids import TopicPartition
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.transactional_producer import FencedError
from penstock.sim.checkers import SentMessage
from penstock.sim.coordination_actors import TransactorPlan
from penstock.sim.entries import Transact
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.recording_client import RecordingClient
from penstock.sim.workload.transaction_runner import Part, TransactionRunner


class Transactor:
    """Carries out Transact."""

    def __init__(self, plan: TransactorPlan, client: RecordingClient, journal: Journal) -> None:
        self._journal = journal
        self._transacting = TransactionRunner(plan.name, client, journal, timeout_ms=plan.timeout_ms)

    async def transact(self, entry: Transact) -> None:
        parts = [
            Part(
                TopicPartition(topic, partition),
                tuple(SentMessage(self._journal.number()) for _ in range(entry.count)),
            )
            for topic, partition in zip(entry.topics, entry.partitions, strict=True)
        ]
        try:
            committed = await self._transacting.run(
                parts, commits=entry.commits, pause_s=entry.pause_ms / 1000
            )
            outcome = "ok" if committed else "aborted"
        except AnsweredError as error:
            outcome = error.refusal.code.name
        except (ClientError, FencedError) as error:
            outcome = type(error).__name__
        self._journal.count(entry.kind, outcome)
