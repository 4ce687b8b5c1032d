"""Replaces segments by a new one, so that a crash at any moment finds the old ones or the new one.

1  sync <base>.log.cleaned and its indexes                        a crash: the files are removed
2  rename them to .swap, the .log last; sync the directory        from here on the next start completes the swap
3  rename the old ones to .deleted; sync the directory
4  rename .swap to the final names
"""

from collections.abc import Callable, Sequence

from penstock.storage import file_names
from penstock.storage.log import Log
from penstock.storage.segment import Segment
from penstock.world.disk import Disk
from penstock.world.work import Work


async def swap_in(
    log: Log,
    disk: Disk,
    new: Segment,
    old: Sequence[Segment],
    *,
    work: Work,
    now_ms: int,
    is_current: Callable[[], bool],
    before_swap: Callable[[], None],
) -> bool:
    """Replace the adjacent segments `old` by `new`, which was written with the suffix .cleaned and still grows.

    `before_swap` is called in a worker thread when `new` is synced. False if the log has changed meanwhile, as
    `is_current` tells: then `new` is removed.
    """
    files = [new.file, *new.retire()]

    def commit() -> None:
        for file in files:
            file.sync()
        for file in files[1:]:
            file.close()
        before_swap()
        new.move_to(file_names.SWAP)
        disk.sync_dir(log.path)

    def withdraw() -> None:
        discard(new, disk)
        disk.sync_dir(log.path)

    await work.run(commit)
    if not is_current():
        await work.run(withdraw)
        return False
    log.replace_segments(old, [new], now_ms=now_ms)
    try:
        await work.run(lambda: disk.sync_dir(log.path))
        new.move_to("")
    except OSError as error:
        log.fail(f"cannot swap in a segment: {error}")  # the next start completes it
        raise
    return True


def discard(segment: Segment, disk: Disk) -> None:
    """Remove the files of a segment that was never swapped in."""
    segment.close()
    for kind in reversed(file_names.SEGMENT_SUFFIXES):
        disk.remove(segment.path(kind))
