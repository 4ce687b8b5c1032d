"""Probes whether a full disk has room again."""

from penstock.storage import file_names
from penstock.world.disk import Disk


def has_room_for(disk: Disk, directory: str, size: int) -> bool:
    """Whether a file of `size` bytes can be written in a directory. May block.

    Writes a file and removes it: a quota cannot be seen in any other way.
    """
    path = f"{directory}/{file_names.ROOM_TRIAL}"
    try:
        file = disk.open(path, create=True)
        try:
            file.append([bytes(size)])
        finally:
            file.close()
            disk.remove(path)
    except OSError:
        return False  # any other error is found again, and handled, by the next append
    return True
