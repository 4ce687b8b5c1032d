"""The directories of partitions below a data directory: what their names say, and whose they are.

    TOPIC-INDEX                     a partition
    TOPIC-INDEX.UNIQUE-delete       one that was deleted or moved to other brokers, until its room is freed
    TOPIC-INDEX.UNIQUE-stray        one that the metadata do not know, set aside because its name was needed

All names are Kafka's. A topic's name is cut where a name would be longer than file systems allow; what makes it unique
and the index stay. Other directories are nobody's business here, whatever they are called.
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
_ASIDE = re.compile(rf"(.+-\d+)\.[0-9a-f]{{{2 * _UNIQUE_BYTES}}}({DELETE}|{STRAY})", re.DOTALL)


class Aside(NamedTuple):
    """What the name of a directory that was set aside says; the topic's name may be cut."""

    partition: TopicPartition
    suffix: str


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose directory has this name."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdecimal()):
        return None
    partition = TopicPartition(topic, int(number))
    return partition if str(partition) == name else None  # else it has zeros in front: nobody's


def aside_of(name: str) -> Aside | None:
    """What was set aside under this name, if that is what it is called like."""
    found = _ASIDE.fullmatch(name)
    partition = None if found is None else partition_of(found[1])
    return None if found is None or partition is None else Aside(partition, found[2])


def aside_name(partition: TopicPartition, unique: bytes, suffix: str) -> str:
    """What a partition's directory is called once it is set aside; `unique` is not used a second time."""
    assert len(unique) == _UNIQUE_BYTES
    end = f"-{partition.partition}.{unique.hex()}{suffix}"
    room = _NAME_BYTES_MAX - len(end)
    return partition.topic.encode("utf-8", "surrogateescape")[:room].decode("utf-8", "ignore") + end


def is_of_log(directory: str) -> bool:
    """Whether a directory is a partition's, or was one's."""
    name = directory.partition("/")[0]
    return partition_of(name) is not None or aside_of(name) is not None


def has_segments(disk: Disk, path: str) -> bool:
    """Whether there is a directory that holds segments."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return any(file_names.offset_in(name, file_names.LOG) is not None for name in disk.list(path))
    return False


def read_topic_id(disk: Disk, path: str) -> TopicId:
    """The topic whose partition a directory is, as partition.metadata says; the zero id where that is not whole."""
    try:
        return topic_id_in(read_file(disk, f"{path}/{file_names.PARTITION_METADATA}"))
    except (FileNotFoundError, NotADirectoryError):
        return ZERO_ID


def topic_id_in(content: bytes) -> TopicId:
    """What partition.metadata says; the zero id where it is not whole."""
    lines = content.decode("utf-8", "replace").split("\n")
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return parse_id(values["topic_id"])
    except (KeyError, UserError):
        return ZERO_ID


def is_blank(disk: Disk, path: str) -> bool:
    """Whether a directory holds nothing, or what a power cut leaves of a partition that was just being created: files
    without a record, and none that says whose they are.
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
