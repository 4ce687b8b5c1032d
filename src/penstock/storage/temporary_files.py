"""Files that a crash in the middle of an operation leaves in a partition's directory, and how that is completed.

.deleted, .cleaned, .tmp    removed
.swap                       compaction had committed: the swap is completed, and the replaced segments are removed
an index without its .log   removed
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from penstock.storage import file_names
from penstock.storage.batch_scan import headers
from penstock.world.disk import Disk

_UNFINISHED = (file_names.DELETED, file_names.CLEANED, ".tmp")


class FoundFiles(NamedTuple):
    """The files of a partition's directory after the clean-up."""

    bases: list[int]  # of the segments, sorted
    indexed: frozenset[int]  # bases that have both index files
    aborted: frozenset[int]  # bases that have a transaction index
    aborted_sums: frozenset[int]  # bases that have the checksum of one
    snapshots: list[int]
    changed: bool  # whether anything had to be cleaned up


def tidy(disk: Disk, path: str, *, start_offset: int) -> FoundFiles:
    """Complete or undo interrupted operations, and list the files. May block."""
    listed = disk.list(path)
    swapped = [name for name in listed if name.endswith(file_names.SWAP)]
    unfinished = [name for name in listed if name.endswith(_UNFINISHED)]
    for name in unfinished:
        disk.remove(f"{path}/{name}")
    if swapped:
        _finish_swaps(disk, path, swapped)
    if swapped or unfinished:
        listed = disk.list(path)
    bases = _offsets(listed, file_names.LOG)
    outdated = [base for base, following in pairwise(bases) if following <= start_offset]
    for base in outdated:
        _remove_segment(disk, path, base)
    bases = bases[len(outdated) :]
    kinds = (
        file_names.INDEX,
        file_names.TIME_INDEX,
        file_names.TRANSACTION_INDEX,
        file_names.TRANSACTION_INDEX_SUM,
    )
    indexes = {kind: set(_offsets(listed, kind)) for kind in kinds}
    orphans = [
        file_names.file_name(base, kind)
        for kind, known in indexes.items()
        for base in sorted(known.difference(bases))
    ]
    for name in orphans:
        disk.remove(f"{path}/{name}")
    indexed = frozenset(bases) & indexes[file_names.INDEX] & indexes[file_names.TIME_INDEX]
    return FoundFiles(
        bases,
        indexed,
        frozenset(bases) & indexes[file_names.TRANSACTION_INDEX],
        frozenset(bases) & indexes[file_names.TRANSACTION_INDEX_SUM],
        _offsets(listed, file_names.SNAPSHOT),
        bool(swapped or unfinished or orphans or outdated),
    )


def _offsets(listed: Iterable[str], suffix: str) -> list[int]:
    offsets = (file_names.offset_in(name, suffix) for name in listed if name.endswith(suffix))
    return sorted(offset for offset in offsets if offset is not None)


def _finish_swaps(disk: Disk, path: str, swapped: list[str]) -> None:
    bases = _offsets(swapped, file_names.LOG + file_names.SWAP)
    for name in swapped:
        base = next((base for base in bases if name.startswith(file_names.file_name(base, "."))), None)
        if base is None:  # its .log was never renamed, or is in place already; indexes are rebuilt if missing
            disk.remove(f"{path}/{name}")
    for base in bases:
        _remove_replaced(disk, path, base)
        for kind in file_names.SEGMENT_SUFFIXES:
            target = f"{path}/{file_names.file_name(base, kind)}"
            if disk.exists(target + file_names.SWAP):
                disk.rename(target + file_names.SWAP, target)


def _remove_replaced(disk: Disk, path: str, base: int) -> None:
    """Remove the segments that the one about to be swapped in replaces."""
    file = disk.open(f"{path}/{file_names.file_name(base, file_names.LOG + file_names.SWAP)}")
    next_offset = base
    for _, header in headers(file, 0, end=file.size):
        next_offset = header.next_offset
    file.close()
    for replaced in _offsets(disk.list(path), file_names.LOG):
        if base < replaced < next_offset:
            _remove_segment(disk, path, replaced)


def _remove_segment(disk: Disk, path: str, base: int) -> None:
    for kind in file_names.SEGMENT_SUFFIXES:
        disk.remove(f"{path}/{file_names.file_name(base, kind)}")
