"""The operations of a disk, for its watchers."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias


class DiskOperation(StrEnum):
    """What is done to a disk, as a watcher sees it."""

    OPEN = "open"
    CREATE = "create"
    APPEND = "append"
    READ = "read"
    READ_CACHED = "read cached"
    TRUNCATE = "truncate"
    SYNC = "sync"
    LIST = "list"
    MAKE_DIR = "make dir"
    RENAME = "rename"
    REMOVE = "remove"
    REMOVE_TREE = "remove tree"
    SYNC_DIR = "sync dir"
    SYNC_ALL = "sync all"
    LOCK = "lock"

    __hash__ = str.__hash__  # the one of enums is slow, and this is looked up at every step


# Those that a crash could come in the middle of, and a later start would see.
CHANGES = frozenset(
    {
        DiskOperation.CREATE,
        DiskOperation.APPEND,
        DiskOperation.TRUNCATE,
        DiskOperation.SYNC,
        DiskOperation.MAKE_DIR,
        DiskOperation.RENAME,
        DiskOperation.REMOVE,
        DiskOperation.REMOVE_TREE,
        DiskOperation.SYNC_DIR,
        DiskOperation.SYNC_ALL,
    }
)

# Called before each operation: with the operation, the path, and how many bytes.
Watcher: TypeAlias = Callable[[DiskOperation, str, int], None]
