"""Loads a shard: reads its partition's log in pieces off the loop, and replays the records in slices on it.

A record that cannot be read is skipped and logged: one bad record must not make all groups of the shard unavailable. A
record of a known type in a newer version fails the load instead (`NewerRecordError`): without it the state of its key
would be wrong, and the version of Penstock that wrote it can be installed.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from penstock.base.buffers import Buffer
from penstock.base.errors import PeerError, StorageError
from penstock.core.coordinator_shard import BatchProducer, Shard
from penstock.records.batch import BatchHeader, headers
from penstock.records.control import Marker, read_marker
from penstock.records.internal.record import InternalRecord, NewerRecordError, RecordFormat
from penstock.records.record import Record, read_records
from penstock.services.replicas.replica import Replica
from penstock.storage.errors import CorruptionError
from penstock.world import World
from penstock.world.pacing import Pacer

PIECE_BYTES: Final = 1024 * 1024
_LOGGED_MAX: Final = 10  # skipped records of one load; the others are counted

log = logging.getLogger("penstock.coordinators")

# A record or transaction marker of an internal topic's log with its offset; or why the record is skipped.
Found: TypeAlias = "tuple[int, InternalRecord | Marker | _Unreadable, BatchProducer | None]"


class _Unreadable(NamedTuple):
    reason: str


class _Skipped:
    """The records that a load skips: the first few are logged, all are counted."""

    def __init__(self, partition: Replica) -> None:
        self._partition = partition
        self._count = 0

    def add(self, offset: int, reason: str) -> None:
        self._count += 1
        if self._count <= _LOGGED_MAX:
            log.warning(
                "%s: skipped the record at offset %d: %s; its change is not applied",
                self._partition,
                offset,
                reason,
            )

    def sum_up(self) -> None:
        if self._count > _LOGGED_MAX:
            log.warning(
                "%s: skipped %d records in all that cannot be read; the first %d are logged above",
                self._partition,
                self._count,
                _LOGGED_MAX,
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
    """Replay the whole log into a new shard; returns the log end offset.

    Raises what reading raises (StorageError, CorruptBatchError), and NewerRecordError.
    """
    pacer = Pacer(world.loop, slice_ms=slice_ms)
    skipped = _Skipped(partition)
    position = partition.log_start_offset
    while position < partition.log_end_offset:
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
                f"{partition} has nothing at offset {start}, and ends at {partition.log_end_offset}"
            )
    skipped.sum_up()
    return position


def _behind_damage(partition: Replica, offset: int) -> int | None:
    """The offset after damaged batches, if this is the only replica: their records are lost, the load continues there.
    None if other replicas exist, since the log will be repaired from them; and for damage that a crash left.
    """
    damage = partition.log.damage_at(offset)
    if damage is None or not damage.was_trusted or partition.is_replicated:
        return None
    log.error(
        "%s: offsets %d to %d are damaged and skipped: their changes of groups or transactions are lost",
        partition,
        offset,
        damage.next_offset - 1,
    )
    return damage.next_offset


def _read(partition: Replica, start: int) -> Buffer:
    """Read from `start` on, past the high watermark: a leader never truncates its log."""
    piece = partition.log.read(
        start,
        max_bytes=PIECE_BYTES,
        upto_offset=partition.log_end_offset,
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
        except Exception as error:  # contents that no coordinator would write
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
