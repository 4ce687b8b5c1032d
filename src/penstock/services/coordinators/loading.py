"""A shard's state out of its partition's log: read in pieces off the loop, replayed in slices on it."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final, TypeAlias

from penstock.base.buffers import Buffer
from penstock.base.errors import StorageError
from penstock.core.coordination import Producer, Shard
from penstock.records.batch import BatchHeader, headers
from penstock.records.control import Marker, read_marker
from penstock.records.internal.record import InternalRecord, RecordFormat
from penstock.records.record import read_records
from penstock.services.partition import Partition
from penstock.world import World
from penstock.world.pacing import Pacer

PIECE_BYTES: Final = 1024 * 1024

log = logging.getLogger("penstock.coordinators")

# One record of an internal topic's log, or the end of a transaction in it; with its offset. None: of an unknown type.
Found: TypeAlias = tuple[int, InternalRecord | Marker | None, Producer | None]


async def load(
    world: World,
    partition: Partition,
    shard: Shard,
    record_format: RecordFormat,
    *,
    decompressed_max: int,
    slice_ms: float,
) -> int:
    """Replay the whole log into a new shard; the offset it came to, which is the log's end when this returns.

    Raises what reading raises (StorageError), and CorruptBatchError or PeerError for what is no internal record.
    """
    pacer = Pacer(world.loop, slice_ms=slice_ms)
    unknown = 0
    position = partition.log.start_offset
    while position < partition.log.end_offset:
        start = position
        piece = await world.work.run(partial(_read, partition, start))
        pacer.begin()
        for at, header in headers(piece):
            position = max(position, header.next_offset)
            batch = piece[at : at + header.size]
            for offset, found, producer in _contents(batch, header, record_format, decompressed_max):
                if found is None:
                    unknown += 1
                elif offset >= start:
                    _replay(shard, found, offset, producer)
                await pacer.pause()
        if position == start:
            raise StorageError(
                f"{partition} has nothing at offset {start}, and ends at {partition.log.end_offset}"
            )
    if unknown:
        log.warning(
            "%s has %d records of types that this version does not know; they are left alone. A newer version may "
            "have written them",
            partition,
            unknown,
        )
    return position


def _read(partition: Partition, start: int) -> Buffer:
    """From `start` on, past the high watermark: what the log of a leader has is never taken back."""
    piece = partition.log.read(
        start,
        max_bytes=PIECE_BYTES,
        upto_offset=partition.log.end_offset,
        whole_first_batch=True,
        cached_only=False,
    )
    assert piece is not None
    return piece


def _replay(shard: Shard, found: InternalRecord | Marker, offset: int, producer: Producer | None) -> None:
    if isinstance(found, Marker):
        assert producer is not None
        shard.replay_marker(producer, committed=found.committed, offset=offset)
    else:
        shard.replay(found, offset=offset, producer=producer)


def _contents(
    batch: Buffer, header: BatchHeader, record_format: RecordFormat, decompressed_max: int
) -> Iterator[Found]:
    producer = Producer(header.producer_id, header.producer_epoch) if header.is_transactional else None
    if header.is_control:
        marker = read_marker(batch, header)
        if marker is not None:
            yield header.base_offset, marker, producer
        return
    for record in read_records(batch, limit=decompressed_max):
        if record.key is None:
            continue  # nobody writes that here; a key is what says which record it is
        yield record.offset, record_format.decode(record.key, record.value), producer
