"""Repairs a segment: damaged batches are replaced by the same batches of another replica.

The segment is written again, with valid batches in the place of the damage, and swapped in as compaction does it.
Nothing is truncated: as long as no replica has the missing batches, all others stay.
"""

from collections.abc import Mapping

from penstock.storage import file_names
from penstock.storage.damage import Damage
from penstock.storage.damage_scan import checked_batches
from penstock.storage.errors import DamagedBatchError
from penstock.storage.log import Log
from penstock.storage.segment import Segment
from penstock.storage.segment_swap import discard, swap_in
from penstock.storage.transaction_index import TransactionIndex
from penstock.world.disk import Disk, File
from penstock.world.work import Work

_COPY_BYTES = 1 << 20


async def repair_segment(
    log: Log, disk: Disk, segment: Segment, sound: Mapping[Damage, bytes], *, work: Work, now_ms: int
) -> bool:
    """Replace each damaged range of a closed segment by the batches that `sound` has for it.

    False if the segment has changed meanwhile, or has more damage. OSError: the log is as before.
    """
    truncations, size, damage = log.truncations, segment.size, segment.damage
    if set(sound) != set(damage):
        return False

    def is_current() -> bool:
        return log.failed is None and log.truncations == truncations and not segment.deleted

    def before_swap() -> None:
        if log.config.compact:
            log.mark_compacted()  # another replica may have fewer records there

    repaired = Segment.create(disk, log.path, segment.base_offset, now_ms=now_ms, suffix=file_names.CLEANED)
    try:
        await work.run(lambda: _write(repaired, segment, log, sound, damage, size))
        if is_current():
            return await swap_in(
                log,
                disk,
                repaired,
                [segment],
                work=work,
                now_ms=now_ms,
                is_current=is_current,
                before_swap=before_swap,
            )
    except DamagedBatchError:
        pass  # it has more damage, which the next read finds
    except BaseException:
        if repaired not in log.segments:
            discard(repaired, disk)
        raise
    discard(repaired, disk)
    return False


def _write(
    repaired: Segment,
    segment: Segment,
    log: Log,
    sound: Mapping[Damage, bytes],
    damage: tuple[Damage, ...],
    size: int,
) -> None:
    position = 0
    for each in damage:
        _copy(segment.file, repaired.file, position, each.position)
        if sound[each]:
            repaired.file.append([sound[each]])
        position = each.end
    _copy(segment.file, repaired.file, position, size)
    repaired.size = repaired.file.size
    for at, header in checked_batches(repaired):
        repaired.note(header, at, log.config)
    repaired.transaction_index = TransactionIndex.copy_of(segment.transaction_index)


def _copy(source: File, target: File, start: int, end: int) -> None:
    while start < end:
        data = source.read(start, min(_COPY_BYTES, end - start))
        if not data:
            raise OSError(f"{source.path} ends at {start}, before {end}")
        target.append([data])
        start += len(data)
