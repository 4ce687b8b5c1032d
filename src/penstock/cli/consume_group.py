"""`penstock consume --group`: reads as a member of a group, and commits the offsets of printed records."""

from penstock.base.ids import TopicPartition
from penstock.cli.consume_print import Printer
from penstock.client.client import Client
from penstock.client.errors import AnsweredError
from penstock.client.fetch import Fetched, FetchLimits, read_batches
from penstock.client.group_consumer import GroupConsumer
from penstock.client.group_offsets import GONE_ON
from penstock.client.membership import MemberSettings
from penstock.client.offsets import LATEST, find_offsets
from penstock.client.outages import Outages

# Small, so that the first records of a large topic are shown at once.
LIMITS = FetchLimits(max_wait_ms=500, max_bytes=8 << 20, partition_max_bytes=1 << 20)


class GroupReading:
    """Reads as one member, up to the end offsets at the time of the assignment, or without end."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        topic: str,
        *,
        printer: Printer,
        outages: Outages,
        follow: bool,
        begin_at: int,
        committed_only: bool,
    ) -> None:
        self._client = client
        self._settings = MemberSettings(group_id, (topic,))
        self._printer = printer
        self._outages = outages
        self._follow = follow
        self._begin_at = begin_at
        self._committed_only = committed_only
        self._stops: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        consumer = await GroupConsumer.join(
            self._client,
            self._settings,
            begin_at=self._begin_at,
            limits=LIMITS,
            committed_only=self._committed_only,
        )
        is_written = True
        try:
            while not self._printer.is_full and not await self._is_at_the_end(consumer):
                answers = await consumer.poll()
                if answers:
                    self._outages.answered()
                for fetched in answers:
                    self._take(consumer, fetched)
                if not any(len(fetched.records) for fetched in answers):
                    self._pass_what_is_empty(consumer, answers)
                self._printer.show()
                await _commit(consumer)
        except OSError:  # writing to stdout failed: a full disk, a closed pipe
            is_written = False
            raise
        finally:
            self._printer.close()
            await consumer.close(commit=is_written)

    async def _is_at_the_end(self, consumer: GroupConsumer) -> bool:
        positions = consumer.positions
        if self._follow or not positions or positions.keys() != consumer.assignment:
            return False
        new = [partition for partition in positions if partition not in self._stops]
        if new:
            self._stops |= await find_offsets(
                self._client, dict.fromkeys(new, LATEST), committed_only=self._committed_only
            )
        return all(offset >= self._stops[partition] for partition, offset in positions.items())

    def _take(self, consumer: GroupConsumer, fetched: Fetched) -> None:
        partition = fetched.partition
        for header, batch in read_batches(fetched):
            position = consumer.positions.get(partition)
            if self._printer.is_full or position is None:
                return
            consumer.advance(
                partition, self._printer.print_batch(partition, header, batch, from_offset=position)
            )

    def _pass_what_is_empty(self, consumer: GroupConsumer, answers: list[Fetched]) -> None:
        """Skip to the stop offset where compaction left no records below it."""
        for fetched in answers:
            stop = self._stops.get(fetched.partition)
            if stop is not None and fetched.high_watermark >= stop:
                consumer.advance(fetched.partition, stop)


async def _commit(consumer: GroupConsumer) -> None:
    try:
        await consumer.commit()
    except AnsweredError as error:
        # Without the commit, the next member would print these records again.
        if error.refusal.code not in GONE_ON:
            raise
