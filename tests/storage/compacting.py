"""Running compaction in a test: inline work, a loop whose clock moves a little with every look."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.records.compression import Codec
from penstock.records.record import Record, read_records
from penstock.storage.compaction import CompactionResult, DirtyRange, compact
from penstock.storage.log import Log
from penstock.world.disk import Disk
from penstock.world.pacing import Pacer
from tests.storage.helpers import NOW_MS, append, batch

T = TypeVar("T")

MAP_BYTES_MAX = 1 << 20


class InlineWork:
    """Runs everything at once, with whatever a test wants to happen in between."""

    def __init__(self, before_each: Callable[[], None] = lambda: None) -> None:
        self.before_each = before_each

    async def run(self, function: Callable[[], T]) -> T:
        self.before_each()
        return function()

    def close(self) -> None:
        pass


class TickingLoop:
    """Every look at the clock finds it 1 ms later; counts how often the loop was given back."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.sleeps = 0

    def time(self) -> float:
        self.now_s += 0.001
        return self.now_s

    async def sleep(self, delay_s: float) -> None:
        self.sleeps += 1
        await asyncio.sleep(0)


def run_compaction(
    log: Log,
    disk: Disk,
    dirty: DirtyRange | None = None,
    *,
    cleaner_offset: int = 0,
    now_ms: int = NOW_MS,
    map_bytes_max: int = MAP_BYTES_MAX,
    work: InlineWork | None = None,
    loop: Any = None,
) -> CompactionResult | None:
    """Compact what is dirty, whatever the log's settings say about whether it is worth it."""
    dirty = dirty or DirtyRange(cleaner_offset, log.segments[-1].base_offset, 1.0, False)
    return asyncio.run(
        compact(
            log,
            disk,
            dirty,
            work=work or InlineWork(),
            pacer=Pacer(loop or TickingLoop()),
            now_ms=now_ms,
            map_bytes_max=map_bytes_max,
        )
    )


def put(
    log: Log,
    *pairs: tuple[str, str | None],
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    timestamp: int = NOW_MS,
) -> None:
    """Append one batch with these keys and values."""
    append(
        log,
        batch(
            log.end_offset,
            len(pairs),
            timestamp=timestamp,
            codec=codec,
            producer_id=producer_id,
            sequence=log.end_offset if producer_id >= 0 else -1,
            keys=[key.encode() for key, _ in pairs],
            values=[None if value is None else value.encode() for _, value in pairs],
        ),
    )


def records_of(log: Log) -> list[Record]:
    """Every record of the log, fetched as a consumer does."""
    found = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, max_bytes=1, upto_offset=log.end_offset)
        if not data:
            break
        found += read_records(data, limit=1 << 20)
        offset = next(log.headers(offset)).next_offset
    return found


def table_of(log: Log) -> dict[bytes, bytes]:
    """What a reader that keeps the newest value of each key ends up with."""
    table: dict[bytes, bytes] = {}
    for record in records_of(log):
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
