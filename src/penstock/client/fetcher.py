"""Fetches from many partitions at once, with one request in flight to each leader.

Retries while a broker is offline or a leader is being elected. Errors that the caller has to handle are raised:
an offset that is out of range, a deleted topic.
"""

import asyncio
from collections.abc import Mapping

from penstock.base.errors import ErrorCode
from penstock.base.ids import TopicPartition
from penstock.client.client import Client
from penstock.client.errors import AnsweredError, ClientError
from penstock.client.fetch import Fetched, FetchLimits, fetch
from penstock.world.tasks import cancel_and_wait


class Fetcher:
    """Fetches partitions from their positions, which the caller moves with `advance` as it reads."""

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        *,
        limits: FetchLimits | None = None,
        committed_only: bool = False,
    ) -> None:
        self.positions = dict(positions)
        self._client = client
        self._limits = limits or FetchLimits()
        self._committed_only = committed_only
        self._in_flight: dict[int, asyncio.Task[list[Fetched]]] = {}
        self._asked: dict[TopicPartition, int] = {}  # the fetch offset of each partition's last request
        self._failures = 0
        self._failing_since: float | None = None

    async def poll(self) -> list[Fetched]:
        """The next response of any broker, after at most the fetch's maximum wait.

        It contains partitions without new records too, and is empty while a broker is offline.
        """
        try:
            await self._start_missing()
            if not self._in_flight:
                return []
            done, _ = await asyncio.wait(self._in_flight.values(), return_when=asyncio.FIRST_COMPLETED)
            answers = self._collect(done)
        except ClientError as error:
            await self._recover(error)
            return []
        self._failures = 0
        self._failing_since = None
        return answers

    def advance(self, partition: TopicPartition, offset: int) -> None:
        """Move the position: the caller has read everything below `offset`."""
        # Moved to the end of the order: partitions that got few records in a full response come first next time.
        self.positions.pop(partition, None)
        self.positions[partition] = offset

    def leave(self, partition: TopicPartition) -> None:
        """Stop fetching this partition."""
        self.positions.pop(partition, None)

    async def close(self) -> None:
        tasks = list(self._in_flight.values())
        self._in_flight.clear()
        await cancel_and_wait(*tasks)

    async def _start_missing(self) -> None:
        assert self.positions, "nothing to fetch"
        for node_id, partitions in (await self._client.leaders(self.positions)).items():
            # Some may have been dropped while their leaders were being looked up.
            positions = {each: self.positions[each] for each in partitions if each in self.positions}
            if positions and node_id not in self._in_flight:
                self._asked |= positions
                self._in_flight[node_id] = self._client.loop.create_task(
                    fetch(self._client, node_id, positions, self._limits, committed_only=self._committed_only)
                )

    def _collect(self, done: set[asyncio.Task[list[Fetched]]]) -> list[Fetched]:
        answers: list[Fetched] = []
        for node_id in [node_id for node_id, task in self._in_flight.items() if task in done]:
            answers += self._in_flight.pop(node_id).result()
        for fetched in answers:
            if fetched.refusal is not None and fetched.refusal.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise AnsweredError(fetched.refusal, f"fetch from {fetched.partition}")
        # A partition that was dropped and added again meanwhile may have another position.
        return [each for each in answers if self.positions.get(each.partition) == self._asked[each.partition]]

    async def _recover(self, error: ClientError) -> None:
        """Back off so that the next poll retries; raise if the error is not retriable or `patience_ms` have passed."""
        now = self._client.loop.time()
        if self._failing_since is None:
            self._failing_since = now
        patient = now - self._failing_since < self._client.settings.patience_ms / 1000
        gone = (
            isinstance(error, AnsweredError) and error.refusal.code in _GONE and self._failures > _GONE_TRIES
        )
        if not error.retriable or gone or not patient:
            raise error
        await self._client.recover(error, self._failures)
        self._failures += 1


# A deleted topic cannot be told at once from a new one that the broker has no metadata of yet.
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_GONE_TRIES = 5
