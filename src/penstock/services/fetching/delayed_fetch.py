"""One fetch: it reads its partitions, and waits while they have too little (in Kafka, in the fetch purgatory).

What is in the page cache is read on the loop; the rest through the work pool.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from penstock.base.broker_settings import FETCH_MAX_BYTES, PENSTOCK_FETCH_ANSWER_BYTES
from penstock.base.settings import Settings
from penstock.services.fetching.partition_read import FetchBounds, PartitionRead
from penstock.services.purgatory import FetchWait, FetchWaiters
from penstock.world import Loop

Result = TypeVar("Result")


class DelayedFetch(ABC, Generic[Result]):
    """A fetch that is not complete yet; await it, once, for its result.

    Subclasses define which partitions are read, up to which offset, and whose appends the fetch waits for.
    """

    __slots__ = ("_is_released", "_limits", "_loop", "_room", "_waiting", "reads")

    def __init__(self, loop: Loop, limits: FetchBounds, broker: Settings) -> None:
        self._loop = loop
        self._limits = limits
        enough = max(broker[PENSTOCK_FETCH_ANSWER_BYTES], limits.min_bytes)
        # How many record bytes it returns, but for a first batch that is larger.
        self._room = min(limits.max_bytes, broker[FETCH_MAX_BYTES], enough)
        self._is_released = False
        self._waiting: FetchWait | None = None
        self.reads: list[PartitionRead] = []

    # Overridden by subclasses.

    @abstractmethod
    def _look(self) -> list[PartitionRead]:
        """The partitions to read, checked."""

    @abstractmethod
    def _limit_offset(self, read: PartitionRead) -> int:
        """How far a partition can be read now."""

    @abstractmethod
    def _waiters(self, read: PartitionRead) -> FetchWaiters:
        """Where the fetch waits for a partition's records."""

    def _is_throttled(self, _read: PartitionRead) -> bool:
        """Whether a quota leaves nothing for a partition now."""
        return False

    @property
    def _has_more_partitions(self) -> bool:
        """Whether there are partitions that were not read."""
        return False

    @property
    def _is_about_something(self) -> bool:
        return bool(self.reads)

    @abstractmethod
    def complete(self) -> Result:
        """The fetch's result, with what was read."""

    # Reading.

    def is_complete_at_once(self) -> bool:
        """Read what the page cache has; whether nothing has to be awaited."""
        self._read(self._look())
        return all(read.records is not None for read in self.reads) and self._is_enough()

    def _read(self, reads: list[PartitionRead]) -> None:
        room, found_any = self._room, False
        self.reads = reads
        for read in reads:
            if read.completes_fetch:
                continue
            read.max_bytes = max(0, min(read.target.max_bytes, room))
            read.comes_first = not found_any
            read.upto_offset = self._limit_offset(read)
            if (found_any and not read.max_bytes) or self._is_throttled(read):
                continue  # its turn comes with a later fetch
            read.read_cached()
            if read.records is None:
                room -= read.max_bytes  # an upper bound: `read_cold` follows
                found_any = True
            elif read.records:
                room -= len(read.records)
                found_any = True

    def _is_enough(self) -> bool:
        limits = self._limits
        if limits.max_wait_ms <= 0 or not self._is_about_something:
            return True
        size = 0
        for read in self.reads:
            if read.completes_fetch:
                return True
            size += len(read.records or b"")
        return size >= min(limits.min_bytes, limits.max_bytes)

    # Waiting.

    def __await__(self) -> Generator[Any, Any, Result]:
        return self._run().__await__()

    def release(self) -> None:
        """End the wait: complete the fetch with the records it has."""
        self._is_released = True
        if self._waiting is not None:
            self._waiting.end()

    async def _run(self) -> Result:
        loop = self._loop
        deadline = loop.time() + self._limits.max_wait_ms / 1000
        is_last_look = False
        while True:
            for read in self.reads:
                if read.records is None:
                    await read.read_cold()
            left_ms = (deadline - loop.time()) * 1000
            if is_last_look or self._is_released or left_ms <= 0 or self._is_enough():
                return self.complete()
            is_last_look = await self._wait_for_more(left_ms)
            self._read(self._look())

    async def _wait_for_more(self, left_ms: float) -> bool:
        """True if there is nothing more to wait for."""
        if self._has_more_partitions or any(self._is_outdated(read) for read in self.reads):
            return (
                False  # something arrived after the read, before the fetch was among the waiters: read again
            )
        present = sum(len(read.records or b"") for read in self.reads)
        waiting = self._waiting = FetchWait(
            self._loop, missing_bytes=self._limits.min_bytes - present, max_wait_ms=left_ms
        )
        self._began_waiting(waiting)
        try:
            for read in self.reads:
                waiting.wait_at(self._waiters(read))
                if read.has_new_high_watermark:
                    waiting.high_watermark_advanced()
            return await waiting.future
        finally:
            self._waiting = None
            self._ended_waiting(waiting)
            waiting.leave()

    def _began_waiting(self, waiting: FetchWait) -> None: ...

    def _ended_waiting(self, waiting: FetchWait) -> None: ...

    def _is_outdated(self, read: PartitionRead) -> bool:
        """Whether the partition's log has failed, or can be read further than when it was read."""
        assert read.partition is not None  # an error completes the fetch without a wait
        return read.partition.log.failed is not None or self._limit_offset(read) != read.upto_offset
