"""A shard's state out of its partition's log: read in pieces off the loop, replayed in slices on it.

A record that cannot be read is skipped and named in the log: one of them must not keep all groups of the shard from
their coordinator. A known record in a newer version is none of these (`NewerRecordError`): without it what is known of
its key would be wrong, and the program that wrote it can be installed.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError, StorageError
from penstock.core.coordination import BatchProducer, Shard
from penstock.records.batch import BatchHeader, headers
from penstock.records.control import Marker, read_marker
from penstock.records.internal.record import InternalRecord, NewerRecordError, RecordFormat
from penstock.records.record import Record, read_records
from penstock.services.replicas.replica import Replica
from penstock.storage.errors import CorruptionError
from penstock.world import World
from penstock.world.pacing import Pacer

PIECE_BYTES: Final = 1024 * 1024
_NAMED_MAX: Final = 10  # of the records that one load skips; the others are counted

log = logging.getLogger("penstock.coordinators")

# One record of an internal topic's log, or the end of a transaction in it, with its offset; or why it is to be skipped.
Found: TypeAlias = "tuple[int, InternalRecord | Marker | _Unreadable, BatchProducer | None]"


class _Unreadable(NamedTuple):
    reason: str


class _Skipped:
    """What a load skips: the first few records are named, all are counted."""

    def __init__(self, partition: Replica) -> None:
        self._partition = partition
        self._count = 0

    def add(self, offset: int, reason: str) -> None:
        self._count += 1
        if self._count <= _NAMED_MAX:
            log.warning(
                "%s: skipped the record at offset %d: %s. What it was to change stays as it was before",
                self._partition,
                offset,
                reason,
            )

    def sum_up(self) -> None:
        if self._count > _NAMED_MAX:
            log.warning(
                "%s: skipped %d records in all that cannot be read; the first %d are named above",
                self._partition,
                self._count,
                _NAMED_MAX,
            )


async def load(
    world: World,
    partition: Replica,
    shard: Shard,
    record_format: RecordFormat,
    *,
    decompressed_max: int,
    slice_ms: float,
) -> int:
    """Replay the whole log into a new shard; the offset it came to, which is the log's end when this returns.

    Raises what reading raises (StorageError, CorruptBatchError), and NewerRecordError.
    """
    pacer = Pacer(world.loop, slice_ms=slice_ms)
    skipped = _Skipped(partition)
    position = partition.log.start_offset
    while position < partition.log.end_offset:
        start = position
        try:
            piece = await world.work.run(partial(_read, partition, start))
        except CorruptionError:
            behind = _behind_damage(partition, start)
            if behind is None:
                raise
            position = behind
            continue
        pacer.begin()
        for at, header in headers(piece):
            position = max(position, header.next_offset)
            batch = piece[at : at + header.size]
            for offset, found, producer in _contents(batch, header, record_format, decompressed_max):
                if offset >= start:
                    _replay(shard, found, offset, producer, skipped)
                await pacer.pause()
        if position == start:
            raise StorageError(
                f"{partition} has nothing at offset {start}, and ends at {partition.log.end_offset}"
            )
    skipped.sum_up()
    return position


def _behind_damage(partition: Replica, offset: int) -> int | None:
    """Where to go on behind what has decayed, and no other replica can mend: what it said is lost, and the rest is not.
    None where there are others, for it is going to be mended; and behind what a crash left.
    """
    damage = partition.log.damage_at(offset)
    if damage is None or not damage.was_trusted or len(partition.state.replicas) > 1:
        return None
    log.error(
        "%s: offsets %d to %d are damaged and left out: what they said of groups or transactions is lost",
        partition,
        offset,
        damage.next_offset - 1,
    )
    return damage.next_offset


def _read(partition: Replica, start: int) -> Buffer:
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


def _replay(
    shard: Shard,
    found: InternalRecord | Marker | _Unreadable,
    offset: int,
    producer: BatchProducer | None,
    skipped: _Skipped,
) -> None:
    if isinstance(found, _Unreadable):
        skipped.add(offset, found.reason)
    elif isinstance(found, Marker):
        assert producer is not None
        shard.replay_marker(producer, committed=found.committed, offset=offset)
    else:
        try:
            shard.replay(found, offset=offset, producer=producer)
        except PeerError as error:
            skipped.add(offset, str(error))
        except Exception as error:  # of what a record may say, no coordinator would write most
            skipped.add(offset, f"its contents make no sense ({error!r})")


def _contents(
    batch: Buffer, header: BatchHeader, record_format: RecordFormat, decompressed_max: int
) -> Iterator[Found]:
    producer = BatchProducer(header.producer_id, header.producer_epoch) if header.is_transactional else None
    if header.is_control:
        marker = read_marker(batch, header)
        if marker is not None:
            yield header.base_offset, marker, producer
        return
    for record in read_records(batch, limit=decompressed_max):
        yield record.offset, _decoded(record, record_format), producer


def _decoded(record: Record, record_format: RecordFormat) -> InternalRecord | _Unreadable:
    if record.key is None:
        return _Unreadable("it has no key")
    try:
        decoded = record_format.decode(record.key, record.value)
    except NewerRecordError:
        raise
    except PeerError as error:
        return _Unreadable(str(error))
    if decoded is None:
        return _Unreadable("its type is not known to this version; a newer one may have written it")
    return decoded
