"""Whether a data directory belongs to a broker without a cluster, which stores its metadata in it.

Such a broker refuses to start if it finds partitions and no metadata: the directory is that of a broker in a cluster,
or its metadata were lost. It would treat all partitions as unknown ones.
"""

from penstock.base.errors import UserError
from penstock.storage.partition_directories import has_segments, partition_of
from penstock.world.disk import Disk

METADATA = "__metadata"  # where a broker without a cluster stores its metadata
_SHOWN_MAX = 3


def has_metadata(disk: Disk) -> bool:
    """Whether the directory contains metadata. May block."""
    try:
        return any(disk.size(f"{METADATA}/{name}") for name in disk.list(METADATA))
    except FileNotFoundError:
        return False


def partitions_with_segments(disk: Disk) -> list[str]:
    """The directories of partitions that have segments. May block."""
    return [name for name in disk.list("") if partition_of(name) is not None and has_segments(disk, name)]


def refuse_without_metadata(disk: Disk) -> None:
    """UserError if the directory has partitions and no metadata. May block."""
    if has_metadata(disk):
        return
    found = partitions_with_segments(disk)
    if not found:
        return
    shown = ", ".join(found[:_SHOWN_MAX])
    more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    raise UserError(
        f"the data directory has partitions ({shown}{more}), and no metadata of a standalone broker ({METADATA}"
        " is missing or empty). Nothing was changed. If it is a cluster broker's, start it with --zookeeper; if its"
        f" metadata were lost, put {METADATA} back from a backup; else choose another directory with --data-dir"
    )
