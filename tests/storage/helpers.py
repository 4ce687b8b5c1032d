"""Batches to append, producers to remember, logs to open: what every storage test needs."""

from collections.abc import Sequence

from penstock.base.ids import TopicId
from penstock.records.batch import BatchHeader, headers, read_header
from penstock.records.builder import build_batch
from penstock.records.compression import Codec
from penstock.records.control import Marker
from penstock.records.producer import AbortedTransaction, ProducerEntry
from penstock.records.record import Record
from penstock.storage import log_factory
from penstock.storage.log import Log, LogConfig, PlacedBatch, RecoveryReport
from penstock.world.disk import Disk

TOPIC_ID = TopicId(bytes(range(16)))
PATH = "orders-0"
NOW_MS = 1_700_000_000_000


class RememberedProducers:
    """The simplest producer memory: the last batch of each producer."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def restore(self, entries: Sequence[ProducerEntry]) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}

    def replay(self, header: BatchHeader) -> None:
        self._entries[header.producer_id] = ProducerEntry(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            last_sequence=header.last_sequence,
            last_offset=header.last_offset,
            offset_delta=header.last_offset_delta,
            timestamp=header.max_timestamp,
            coordinator_epoch=-1,
            current_txn_first_offset=-1,
        )

    def replay_marker(self, header: BatchHeader, marker: Marker) -> AbortedTransaction | None:
        return None

    def entries(self) -> list[ProducerEntry]:
        return [self._entries[producer_id] for producer_id in sorted(self._entries)]


def batch(
    base_offset: int,
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    step_ms: int = 0,
    size: int = 10,
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
    keys: Sequence[bytes | None] | None = None,
    values: Sequence[bytes | None] | None = None,
) -> bytes:
    """A batch of `count` records from `base_offset` on, ready to lie in a log."""
    records = [
        Record(
            offset=base_offset + index,
            timestamp=timestamp + index * step_ms,
            key=keys[index] if keys else None,
            value=values[index] if values else b"%d:" % (base_offset + index) + b"x" * size,
            headers=(),
        )
        for index in range(count)
    ]
    return build_batch(
        records,
        codec=codec,
        base_offset=base_offset,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
    )


def placed(data: bytes) -> PlacedBatch:
    return PlacedBatch(read_header(data), (data[:16], memoryview(data)[16:]))


def append(log: Log, data: bytes, *, now_ms: int = NOW_MS) -> bytes:
    log.append([placed(data)], now_ms=now_ms)
    return data


def delete_old_segments(log: Log, now_ms: int, *, high_watermark: int | None = None) -> int:
    """What retention does, as if the new start were written down in between; how many segments went."""
    new_start = log.expire(now_ms, high_watermark=high_watermark)
    return 0 if new_start is None else log.delete_segments_below(new_start, now_ms=now_ms)


def create_log(
    disk: Disk, config: LogConfig | None = None, producers: RememberedProducers | None = None
) -> Log:
    return log_factory.create_log(
        disk,
        PATH,
        topic_id=TOPIC_ID,
        config=config or LogConfig(),
        producers=RememberedProducers() if producers is None else producers,
        now_ms=NOW_MS,
    )


def open_log(
    disk: Disk,
    config: LogConfig | None = None,
    producers: RememberedProducers | None = None,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = False,
) -> tuple[Log, RecoveryReport]:
    return log_factory.open_log(
        disk,
        PATH,
        config=config or LogConfig(),
        producers=RememberedProducers() if producers is None else producers,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        clean=clean,
        now_ms=NOW_MS,
    )


def close_cleanly(log: Log, disk: Disk) -> None:
    log.finish()
    plan = log.unsynced()
    plan.run(disk)
    log.synced(plan)
    log.close()


def sync(log: Log, disk: Disk) -> None:
    plan = log.unsynced()
    plan.run(disk)
    log.synced(plan)


def read_all(log: Log, *, max_bytes: int = 1 << 20, start: int | None = None) -> list[bytes]:
    """Every batch from the start on, fetched as a consumer does."""
    found = []
    offset = log.start_offset if start is None else start
    while offset < log.end_offset:
        data = log.read(offset, max_bytes=max_bytes, upto_offset=log.end_offset)
        assert data, f"nothing at {offset}"
        for position, header in headers(data):
            found.append(bytes(data[position : position + header.size]))
            offset = header.next_offset
    return found


def cleanly_closed_log(
    disk: Disk, *, config: LogConfig, batches: int, size: int, rolled: bool
) -> list[bytes]:
    """A log with so many batches of two records that was closed cleanly; what was written."""
    log = create_log(disk, config=config)
    written = [
        append(log, batch(base_offset=2 * number, count=2, timestamp=NOW_MS + number, size=size))
        for number in range(batches)
    ]
    if rolled:
        log.roll(now_ms=NOW_MS)
    close_cleanly(log, disk)
    return written
