"""`penstock produce --spool DIR`: writes records to disk first, then sends them when a broker is reachable."""

import contextlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from penstock.base.errors import Refusal, UserError
from penstock.base.ids import TopicPartition
from penstock.cli.output import count_of, print_json, print_lines
from penstock.cli.session import MissingTopicError, find_topics
from penstock.cli.spool import Batches, Chunk, Spool
from penstock.client.blocking import BlockingClient
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.produce import produce
from penstock.client.producer import NewRecord, Producer
from penstock.records.batch import read_header

_CHUNK_RECORDS_MAX = 10_000


class SpooledSending:
    """Sends one command's records through a spool, after those that an earlier command left."""

    def __init__(self, blocking: BlockingClient, producer: Producer, spool: Spool) -> None:
        self._blocking = blocking
        self._producer = producer
        self._spool = spool
        self._problem: str | None = None
        self.sent_count = 0

    def send_all(self, topic: str, inputs: Iterable[list[NewRecord]]) -> None:
        """Spool all records, and send them; once no broker is reachable, only spool."""
        self._try_to_send()
        for records in inputs:
            for part in _parts(records):
                self._spool.keep(topic, part)
            self._try_to_send()

    @property
    def problem(self) -> str | None:
        """Why records are left in the spool."""
        return self._problem

    def _try_to_send(self) -> None:
        if self._problem is not None:
            return
        try:
            for chunk in self._spool.chunks():
                self._blocking.run(self._send(chunk))
        except AnsweredError as error:
            if not error.retriable:
                raise UserError(
                    f"{error}; the records are kept in {self._spool.path}, and are tried again next time"
                ) from error
            self._problem = str(error)
        except (ClientError, MissingTopicError) as error:
            self._problem = str(error)

    async def _send(self, chunk: Chunk) -> None:
        if chunk.batches is None:
            await find_topics(self._blocking.client, [chunk.topic], could_be_made=True)
            batches = await self._producer.encode(chunk.topic, chunk.records)
            chunk = self._spool.ready(chunk, batches)
        assert chunk.batches is not None
        for round_ in _rounds(chunk.batches):
            await _deliver(self._blocking.client, round_)
        self._spool.drop(chunk)
        self.sent_count += sum(read_header(batch).record_count for _, batch in chunk.batches)


async def _deliver(client: Client, batches: Mapping[TopicPartition, bytes]) -> None:
    for partition, result in (await produce(client, batches)).items():
        if isinstance(result, Refusal):
            raise AnsweredError(result, f"produce to {partition}")


def _rounds(batches: Batches) -> Iterator[dict[TopicPartition, bytes]]:
    """One batch per partition at a time, in order."""
    waiting: dict[TopicPartition, deque[bytes]] = {}
    for partition, batch in batches:
        waiting.setdefault(partition, deque()).append(batch)
    while waiting:
        yield {partition: queue.popleft() for partition, queue in waiting.items()}
        waiting = {partition: queue for partition, queue in waiting.items() if queue}


def _parts(records: list[NewRecord]) -> Iterator[list[NewRecord]]:
    for start in range(0, len(records), _CHUNK_RECORDS_MAX):
        yield records[start : start + _CHUNK_RECORDS_MAX]


def report(topic: str, sending: SpooledSending, spool: Spool, *, as_json: bool) -> None:
    kept_count = spool.record_count()
    if as_json:
        print_json(
            {"topic": topic, "sent": sending.sent_count, "kept": kept_count, "problem": sending.problem}
        )
        return
    print_lines([f"sent {count_of(sending.sent_count, 'record')} to {topic}"])
    if kept_count:
        sys.stderr.write(
            f"penstock: {sending.problem}; {count_of(kept_count, 'record')} kept in {spool.path}, to be sent first "
            "by the next `penstock produce` with this spool\n"
        )


@contextlib.contextmanager
def opened(spool: Spool) -> Iterator[Spool]:
    try:
        yield spool
    finally:
        spool.close()
