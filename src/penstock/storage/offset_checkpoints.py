"""Kafka's checkpoint files: an offset for each of many partitions.

A version line, a line with the number of entries, then one line `<topic> <partition> <offset>` each. They are
replaced as a whole. If one cannot be read, the caller starts without it, which costs time and loses nothing.
"""

from collections.abc import Mapping

from penstock.base.ids import TopicPartition
from penstock.world.disk import Disk, read_file, write_file_atomically

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"

_VERSION = "0"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int] | None:
    """The offsets in a checkpoint file, or None if it is damaged."""
    try:
        version, count, *lines = content.decode().split("\n")
        entries = [line.split(" ") for line in lines[:-1]]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in entries}
        whole = version == _VERSION and lines[-1] == "" and len(offsets) == int(count)
    except (ValueError, IndexError):
        return None
    return offsets if whole else None


def read_offsets(disk: Disk, name: str) -> dict[TopicPartition, int] | None:
    """A checkpoint file's offsets: empty if there is no file, None if it is damaged. May block."""
    try:
        return decode_offsets(read_file(disk, name))
    except FileNotFoundError:
        return {}


def write_offsets(disk: Disk, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace and sync a checkpoint file. May block."""
    write_file_atomically(disk, name, encode_offsets(offsets))
