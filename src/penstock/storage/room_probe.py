"""Finding out whether a disk that was full has space again."""

from penstock.storage import file_names
from penstock.world.disk import Disk


def has_room_for(disk: Disk, directory: str, size: int) -> bool:
    """Whether a file of so many bytes can be written in a directory. May block.

    It is tried, with a file that is removed again: a quota shows in no other way.
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
        return False  # if it is for another reason, the next append meets it
    return True
