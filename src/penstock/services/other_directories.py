"""Directories of partitions that this broker has no replica of: which of them are deleted at start.

`partition.metadata` names the topic id of a directory. A broker deletes a directory only if

- the deletion of that topic id is recorded in the metadata (`cluster/topic_deletions.py`), or
- the topic exists, and this partition of it has its replicas on other brokers.

That also holds for a `…-delete` directory that a crash left behind; `partition.metadata` is the last of its files to be
removed. All other directories stay. The broker names those with segments in a warning at start, and lists them in the
file `unknown-partitions`, from which `penstock log describe` shows them; it ignores directories without segments. If a
new partition needs the name of such a directory, the broker renames the directory to `…-stray`, and never removes it.
"""

import logging
from collections.abc import Collection, Container, Iterable
from typing import NamedTuple

from penstock.base.ids import ZERO_ID, TopicId, TopicPartition, format_id
from penstock.cluster.metadata import Topic
from penstock.storage.data_directory import DataDirectory
from penstock.storage.partition_directories import DELETE

log = logging.getLogger("penstock.partitions")

_TOLD_MAX = 20


class Others(NamedTuple):
    """Directories with segments, of partitions that this broker has no replica of."""

    deleted: list[TopicPartition]  # to be deleted
    doomed: list[str]  # renamed to `…-delete` before this start, and still to be deleted
    unknown: list[str]  # to be kept


def look_at_others(
    directory: DataDirectory,
    held: Collection[TopicPartition],
    topics: Iterable[Topic],
    *,
    node_id: int,
    deletions: Container[bytes],
) -> Others:
    """Sort the directories with segments into those to delete and those to keep. May block."""
    by_id = {topic.topic_id: topic for topic in topics}

    def is_to_go(name: str, partition: TopicPartition) -> bool:
        topic_id = directory.topic_id(name)
        return topic_id in deletions or _is_elsewhere(by_id.get(topic_id), partition.partition, node_id)

    others = Others([], [], [])
    for partition in directory.partitions:
        name = str(partition)
        if partition in held or not directory.has_segments(name):
            continue
        if is_to_go(name, partition):
            others.deleted.append(partition)
        else:
            others.unknown.append(name)
    for name, removed in directory.removed_directories.items():
        if directory.has_segments(name):
            is_doomed = removed.suffix == DELETE and is_to_go(name, removed.partition)
            (others.doomed if is_doomed else others.unknown).append(name)
    return others


def _is_elsewhere(topic: Topic | None, index: int, node_id: int) -> bool:
    """Whether the topic has this partition, with no replica of it on this broker."""
    return (
        topic is not None
        and index < len(topic.partitions)
        and node_id not in topic.partitions[index].replicas
    )


def tell_of_unknown(directories: list[str]) -> None:
    """Warn of directories that are kept: the operator may need their records, or their disk space."""
    for name in directories[:_TOLD_MAX]:
        log.warning(
            "%s: the metadata do not know this partition; its directory stays as it is. Move it away if it is"
            " needed elsewhere, remove it if it is not",
            name,
        )
    if len(directories) > _TOLD_MAX:
        log.warning(
            "the metadata do not know %d more partitions, whose directories stay as they are too; `penstock log"
            " describe` with the data directory lists all",
            len(directories) - _TOLD_MAX,
        )


def tell_of_stray(partition: TopicPartition, found: TopicId, *, renamed_to: str, needed_by: TopicId) -> None:
    log.warning(
        "%s: the directory with this name is now called %s, since topic id %s needs the name. It is a partition of"
        " topic id %s, which the metadata do not know; this broker does not remove it",
        partition,
        renamed_to,
        format_id(needed_by),
        "unknown" if found == ZERO_ID else format_id(found),
    )
