"""At the end of a run: reads every log that still exists from its start to its end."""

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition, format_id
from penstock.client.errors import ClientError, describe
from penstock.client.fetch import Fetched, read_batches, read_fetched
from penstock.client.offsets import EARLIEST, LATEST, find_offsets
from penstock.records.errors import CorruptBatchError
from penstock.sim.checkers import FinalRead, LogName, Poll, Seen, Unreadable
from penstock.sim.workload.final_fetch import final_fetch
from penstock.sim.workload.journal import Journal
from penstock.sim.workload.records import to_message
from penstock.sim.workload.tracking_client import TrackingClient

_NAME = "last reader"


class FinalReader:
    """Reads all logs, and records which offsets cannot be read."""

    def __init__(self, client: TrackingClient, journal: Journal) -> None:
        self._client = client
        self._journal = journal

    async def read_all(self) -> None:
        client = self._client
        client.begin()
        topics = await client.retry(lambda: client.refresh(None))
        self._journal.topics.listed(sorted(topic.name for topic in topics))
        for topic in sorted(topic for topic in topics if not topic.is_internal):
            for index in range(len(topic.partitions)):
                # Not `client.log`: a client that finds a leader changed discards its metadata of all topics.
                log = LogName(topic.name, format_id(topic.topic_id), index)
                try:
                    await self._read(TopicPartition(topic.name, index), log)
                except (ClientError, CorruptBatchError) as error:
                    self._journal.unreadable[log] = str(error)

    async def _read(self, partition: TopicPartition, log: LogName) -> None:
        client, history = self._client, self._journal.history
        start = position = (await find_offsets(client, {partition: EARLIEST}))[partition]
        end = (await find_offsets(client, {partition: LATEST}))[partition]
        while position < end:
            began = history.tick()
            fetched = await final_fetch(client, partition, position)
            if fetched.refusal is not None and fetched.refusal.code is ErrorCode.CORRUPT_MESSAGE:
                # The client cannot know how far the damage goes: try offset by offset.
                history.unreadable.append(Unreadable(log, position, position + 1))
                position += 1
                continue
            if fetched.refusal is not None:
                self._journal.unreadable[log] = f"{describe(fetched.refusal)} at offset {position}"
                return
            poll = self._poll(log, fetched, position, began)
            history.polls.append(poll)
            if poll.next_position == position:
                # Compaction may have removed all remaining records below the log end offset.
                break
            position = poll.next_position
        at, now_ms = history.tick(), client.loop.now_ms()
        history.final_reads.append(FinalRead(log, start, max(position, end), at, now_ms))

    def _poll(self, log: LogName, fetched: Fetched, position: int, began: int) -> Poll:
        next_position = position
        seen: list[Seen] = []
        for header, batch in read_batches(fetched):
            for record in read_fetched(batch, header, from_offset=position):
                seen.append(Seen(record.offset, to_message(record)))
            next_position = max(next_position, header.next_offset)
        return Poll(
            _NAME,
            0,
            log,
            position,
            next_position,
            tuple(seen),
            began,
            self._journal.history.tick(),
            fetched.high_watermark,
            log_start=fetched.log_start_offset,
            now_ms=self._client.loop.now_ms(),
        )
