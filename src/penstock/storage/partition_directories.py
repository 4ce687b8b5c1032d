"""The directories of partitions in a data directory: their names and their topic ids.

    TOPIC-INDEX                     a partition
    TOPIC-INDEX.UNIQUE-delete       a partition that was deleted or reassigned, until its files are removed
    TOPIC-INDEX.UNIQUE-stray        one that the metadata do not have, renamed because its name was needed

All names are Kafka's. The topic's part is shortened if a name would be longer than file systems allow. Other
directories are ignored.
"""

import re
from contextlib import suppress
from typing import NamedTuple

from penstock.base.errors import UserError
from penstock.base.ids import ZERO_ID, TopicId, TopicPartition, parse_id
from penstock.storage import file_names
from penstock.world.disk import Disk, read_file

DELETE = "-delete"
STRAY = "-stray"

_NAME_BYTES_MAX = 255
_UNIQUE_BYTES = 16
_REMOVED_NAME = re.compile(rf"(.+-\d+)\.[0-9a-f]{{{2 * _UNIQUE_BYTES}}}({DELETE}|{STRAY})", re.DOTALL)


class RemovedDirectory(NamedTuple):
    """The parts of the name of a deleted or stray directory; the topic's name may be shortened."""

    partition: TopicPartition
    suffix: str


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose directory has this name."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdecimal()):
        return None
    partition = TopicPartition(topic, int(number))
    return partition if str(partition) == name else None  # else it has leading zeros: not a partition's


def parse_removed_name(name: str) -> RemovedDirectory | None:
    """The parts of a deleted or stray directory's name; None if the name has another form."""
    found = _REMOVED_NAME.fullmatch(name)
    partition = None if found is None else partition_of(found[1])
    return None if found is None or partition is None else RemovedDirectory(partition, found[2])


def removed_name(partition: TopicPartition, unique: bytes, suffix: str) -> str:
    """The name of a deleted or stray partition's directory; `unique` must not be used a second time."""
    assert len(unique) == _UNIQUE_BYTES
    end = f"-{partition.partition}.{unique.hex()}{suffix}"
    room = _NAME_BYTES_MAX - len(end)
    return partition.topic.encode("utf-8", "surrogateescape")[:room].decode("utf-8", "ignore") + end


def is_of_log(directory: str) -> bool:
    """Whether a directory is that of a partition, deleted and stray ones included."""
    name = directory.partition("/")[0]
    return partition_of(name) is not None or parse_removed_name(name) is not None


def has_segments(disk: Disk, path: str) -> bool:
    """Whether a directory exists and has segments."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return any(file_names.offset_in(name, file_names.LOG) is not None for name in disk.list(path))
    return False


def read_topic_id(disk: Disk, path: str) -> TopicId:
    """The topic id in a directory's partition.metadata; the zero id if there is none."""
    try:
        return topic_id_in(read_file(disk, f"{path}/{file_names.PARTITION_METADATA}"))
    except (FileNotFoundError, NotADirectoryError):
        return ZERO_ID


def topic_id_in(content: bytes) -> TopicId:
    """The topic id in the content of partition.metadata; the zero id if there is none."""
    lines = content.decode("utf-8", "replace").split("\n")
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return parse_id(values["topic_id"])
    except (KeyError, UserError):
        return ZERO_ID


def has_no_records(disk: Disk, path: str) -> bool:
    """Whether a directory is empty, or has only files of a log without records and without a topic id.

    A power cut during the creation of a partition leaves such a directory.
    """
    listed = disk.list(path)
    return (
        all(_is_logs_own(name) for name in listed)
        and not any(disk.size(f"{path}/{name}") for name in listed if name.endswith(file_names.LOG))
        and read_topic_id(disk, path) == ZERO_ID
    )


def _is_logs_own(name: str) -> bool:
    kinds = (*file_names.SEGMENT_SUFFIXES, file_names.SNAPSHOT)
    return name in (file_names.PARTITION_METADATA, file_names.LEADER_EPOCHS) or any(
        file_names.offset_in(name, kind) is not None for kind in kinds
    )
