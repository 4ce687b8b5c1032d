"""A consumer without a group: keeps a position in each partition, and reads on from there."""

from dataclasses import dataclass

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.fetch import Fetched, FetchLimits, fetch, read_batches, read_fetched
from penstock.client.offsets import EARLIEST, LATEST, find_offsets
from penstock.records.errors import CorruptBatchError
from penstock.sim.checkers import LogName, Poll, Seen
from penstock.sim.entries import ReadOn, Seek
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.records import to_message
from penstock.sim.workload.tracking_client import TrackingClient


@dataclass(slots=True)
class _Stand:
    log: LogName
    position: int
    session: int


class Reader:
    """Carries out ReadOn and Seek."""

    def __init__(
        self, name: str, client: TrackingClient, journal: Journal, *, max_wait_ms: int = 100
    ) -> None:
        self._name = name
        self._client = client
        self._journal = journal
        self._max_wait_ms = max_wait_ms
        self._stands: dict[TopicPartition, _Stand] = {}
        self._sessions = 0

    async def read(self, entry: ReadOn) -> None:
        partition = TopicPartition(entry.topic, entry.partition)
        try:
            outcome = await self._read(partition, entry.bytes_max)
        except AnsweredError as error:
            self._client.cluster.forget()
            outcome = error.refusal.code.name
        except ClientError as error:
            self._client.cluster.forget()
            outcome = type(error).__name__
        except CorruptBatchError as error:
            stand = self._stands.pop(partition)
            self._journal.unreadable[stand.log] = str(error)
            outcome = type(error).__name__
        self._journal.count("read", outcome)

    async def seek(self, entry: Seek) -> None:
        partition = TopicPartition(entry.topic, entry.partition)
        try:
            await self._go(partition, LATEST if entry.to_end else EARLIEST)
        except ClientError:
            self._client.cluster.forget()
        self._journal.count("seek", "done")

    async def _go(self, partition: TopicPartition, where: int) -> None:
        self._stands.pop(partition, None)
        self._client.begin()
        offsets = await find_offsets(self._client, {partition: where})
        self._sessions += 1
        log = self._client.log(partition)
        self._stands[partition] = _Stand(log, offsets[partition], self._sessions)

    async def _read(self, partition: TopicPartition, bytes_max: int) -> str:
        client, history = self._client, self._journal.history
        client.begin()
        if partition not in self._stands:
            await self._go(partition, EARLIEST)
        (node_id,) = await client.leaders([partition])
        stand = self._stands[partition]
        if client.log(partition) != stand.log:
            del self._stands[partition]
            return "another topic"
        limits = FetchLimits(max_wait_ms=self._max_wait_ms, partition_max_bytes=bytes_max)
        began = history.tick()
        (fetched,) = await fetch(client, node_id, {partition: stand.position}, limits)
        if fetched.refusal is not None:
            if fetched.refusal.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                del self._stands[partition]
            else:
                client.cluster.forget()
            return fetched.refusal.code.name
        poll = self._poll(stand, fetched, began)
        history.polls.append(poll)
        stand.position = poll.next_position
        return "ok"

    def _poll(self, stand: _Stand, fetched: Fetched, began: int) -> Poll:
        next_position = stand.position
        seen: list[Seen] = []
        for header, batch in read_batches(fetched):
            for record in read_fetched(batch, header, from_offset=stand.position):
                seen.append(Seen(record.offset, to_message(record)))
            next_position = max(next_position, header.next_offset)
        return Poll(
            self._name,
            stand.session,
            stand.log,
            stand.position,
            next_position,
            tuple(seen),
            began,
            self._journal.history.tick(),
            fetched.high_watermark,
            log_start=fetched.log_start_offset,
            now_ms=self._client.loop.now_ms(),
        )
