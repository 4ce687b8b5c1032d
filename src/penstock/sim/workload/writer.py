"""A producer: one batch at a time, with an identity that it gives up when it cannot know what became of one."""

from penstock.base.ids import TopicPartition
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.producer import Producer
from penstock.records.compression import Codec
from penstock.sim.checkers import OperationOutcome, Send, SentMessage
from penstock.sim.checkers.history import NO_OFFSET
from penstock.sim.entries import SendBatch
from penstock.sim.plan import WriterPlan
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.records import size_bytes_max, to_record
from penstock.sim.workload.tracking_client import TrackingClient


class Writer:
    """Carries out SendBatch, one batch in flight."""

    def __init__(self, plan: WriterPlan, client: TrackingClient, journal: Journal) -> None:
        self._plan = plan
        self._client = client
        self._journal = journal
        self._producers: dict[str, Producer] = {}  # by codec

    async def send(self, entry: SendBatch) -> None:
        history, client = self._journal.history, self._client
        messages = self._journal.messages_of(entry)
        client.begin()
        began, timestamp_ms = history.tick(), client.loop.now_ms()
        outcome, base_offset = await self._attempt(entry, messages)
        self._journal.count("send", outcome)
        if not client.attempts:
            return  # no broker was ever asked
        history.sends.append(
            Send(
                self._plan.name,
                client.logs,
                messages,
                began,
                history.tick(),
                outcome,
                acks=self._plan.acks,
                base_offset=base_offset,
                idempotent=self._plan.idempotent,
                attempts=client.attempts,
                size_bytes=size_bytes_max(messages, entry.value_bytes),
                timestamp_ms=timestamp_ms,
            )
        )

    async def _attempt(
        self, entry: SendBatch, messages: tuple[SentMessage, ...]
    ) -> tuple[OperationOutcome, int]:
        producer = self._producer(entry.codec)
        records = [
            to_record(message, partition=entry.partition, value_bytes=entry.value_bytes)
            for message in messages
        ]
        try:
            await producer.send(entry.topic, records)
        except ClientError as error:
            if isinstance(error, AnsweredError) and self._client.attempts <= 1 and not error.retriable:
                return OperationOutcome.FAILED, NO_OFFSET
            # It may have been appended. Its sequence numbers must not stand for anything else from here on.
            self._producers.clear()
            return OperationOutcome.UNKNOWN, NO_OFFSET
        last_offset = producer.tallies[TopicPartition(entry.topic, entry.partition)].last_offset
        return OperationOutcome.OK, NO_OFFSET if last_offset < 0 else last_offset - len(messages) + 1

    def _producer(self, codec: str) -> Producer:
        known = self._producers.get(codec)
        if known is None:
            known = Producer(
                self._client, codec=Codec[codec], acks=self._plan.acks, idempotent=self._plan.idempotent
            )
            self._producers[codec] = known
        return known
