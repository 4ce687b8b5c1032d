"""Whose a data directory is: a broker's that is alone and has its metadata in it, or one of a cluster's.

A broker that is alone and finds partitions without metadata would take them for unknown ones. They are somebody's, who
had the metadata elsewhere or has lost them, so it refuses.
"""

from penstock.base.errors import UserError
from penstock.storage.partition_directories import has_segments, partition_of
from penstock.world.disk import Disk

METADATA = "__metadata"  # where a broker that is alone keeps its metadata
_SHOWN_MAX = 3


def has_metadata(disk: Disk) -> bool:
    """Whether the directory has metadata of its own. May block."""
    try:
        return any(disk.size(f"{METADATA}/{name}") for name in disk.list(METADATA))
    except FileNotFoundError:
        return False


def partitions_with_segments(disk: Disk) -> list[str]:
    """The directories that hold partitions, whoever's they are. May block."""
    return [name for name in disk.list("") if partition_of(name) is not None and has_segments(disk, name)]


def refuse_without_metadata(disk: Disk) -> None:
    """UserError where a broker that is alone would find partitions, and no metadata. May block."""
    if has_metadata(disk):
        return
    found = partitions_with_segments(disk)
    if not found:
        return
    shown = ", ".join(found[:_SHOWN_MAX])
    more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    raise UserError(
        f"the data directory has partitions ({shown}{more}), and no metadata of a broker that is alone ({METADATA}"
        " is missing or empty). Nothing was changed. If it is a cluster broker's, start it with --zookeeper; if its"
        f" metadata were lost, put {METADATA} back from a backup; else choose another directory with --data-dir"
    )
