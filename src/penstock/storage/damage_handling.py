"""Handles damage that a read finds: rebuilds the index, or marks the batches as damaged, and reads again.

All of it may block, and may run in any thread. The broker gets it from the log's findings (`services.log_damage`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.base.errors import StorageError
from penstock.storage.damage import BatchesDamaged, IndexRebuilt
from penstock.storage.damage_scan import checked_batches, find_damage, rebuild_index
from penstock.storage.errors import DamagedBatchError, DamagedIndexError
from penstock.storage.segment import Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log

_REPAIRS_MAX = 100  # during one lookup, beside one for each segment

T = TypeVar("T")


def with_repair(log: "Log", look: Callable[[], T]) -> T:
    """The result of `look`; if it meets damage, that is repaired or marked, and `look` is called again."""
    repairs = 0
    truncations = log.truncations
    while True:
        try:
            return look()
        except (DamagedIndexError, DamagedBatchError) as error:
            if log.was_truncated_since(truncations):
                raise StorageError(f"{log.path} was truncated while it was read") from error
            repairs += 1
            repair(log, error, repairs)


def repair(log: "Log", error: DamagedIndexError | DamagedBatchError, repairs: int) -> None:
    """Repair or mark the damage, so that the next attempt does not meet it; else raise the error."""
    if repairs > _REPAIRS_MAX + len(log.segments):
        raise error
    if isinstance(error, DamagedIndexError):
        _rebuild_index(log, error)
    else:
        note_damage(log, error)


def _rebuild_index(log: "Log", damage: DamagedIndexError) -> None:
    segment = log.view.holding(damage.base_offset)
    if segment.base_offset != damage.base_offset or segment.index.is_rebuilt:
        raise damage  # it was not the index
    try:
        rebuild_index(segment, interval_bytes=log.config.index_interval_bytes)
    except DamagedBatchError as error:
        note_damage(log, error)  # the caller tries again, and may get here again
        return
    log.note_finding(IndexRebuilt(str(damage)))


def note_damage(log: "Log", error: DamagedBatchError) -> None:
    """Mark batches that were synced and are not what was written: reads of them fail from now on."""
    view = log.view
    bases, segments = view.base_offsets, view.segments
    index = next((i for i, segment in enumerate(segments) if segment.file.path == error.path), None)
    if index is None:
        raise error  # the segment was replaced just now
    segment, truncations = segments[index], log.truncations
    limit_offset = bases[index + 1] if index + 1 < len(bases) else log.end_offset
    new = find_damage(segment, error.position, limit_offset=limit_offset)
    if log.was_truncated_since(truncations):
        return
    if new is not None:
        segment.damage = new.of_segment
        log.note_finding(BatchesDamaged(error.path, new.found))
    elif not segment.damage_at(error.position):
        # All batches there are valid: the index led to a wrong position.
        _rebuild_index(
            log, DamagedIndexError(segment.index.offsets.path, str(error), base_offset=segment.base_offset)
        )


def examine(log: "Log", segment: Segment) -> None:
    """Check all batches of a segment, so that the log knows all damage it has."""
    with_repair(log, lambda: _check_all(segment))


def _check_all(segment: Segment) -> None:
    for _ in checked_batches(segment):
        pass
