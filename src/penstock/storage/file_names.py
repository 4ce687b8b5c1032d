"""The names of the files in a partition's directory."""

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
TRANSACTION_INDEX_SUM = ".txnsum"  # the checksum of the transaction index; Kafka has none
SNAPSHOT = ".snapshot"

DELETED = ".deleted"  # deleted from the log, to be removed after file.delete.delay.ms
CLEANED = ".cleaned"  # a compacted segment while it is being written
SWAP = ".swap"  # a complete compacted segment about to replace others

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
ROOM_TRIAL = "room.tmp"  # written and removed again to find out whether the disk has space
COMPACTED = "compacted"  # an empty file: from now on offsets may be missing between batches

# In the order in which they are renamed: a segment is there when its .log is, and indexes can be rebuilt.
SEGMENT_SUFFIXES = (TRANSACTION_INDEX, TRANSACTION_INDEX_SUM, INDEX, TIME_INDEX, LOG)

_OFFSET_DIGITS = 20


def file_name(offset: int, suffix: str) -> str:
    """The name of a segment's file, or of a snapshot, at `offset`."""
    return f"{offset:0{_OFFSET_DIGITS}d}{suffix}"


def offset_in(name: str, suffix: str) -> int | None:
    """The offset in a file's name, or None if the name has another form."""
    digits = name.removesuffix(suffix)
    if len(digits) == len(name) or len(digits) != _OFFSET_DIGITS or not digits.isdecimal():
        return None
    return int(digits)
