"""Directories that do not belong to the broker: copied into its data directory as a fault, checked at the end of a run.

They have to be there unchanged, or renamed to `…-stray`; of deleted topics and of replicas that have moved to other
brokers no directory may be left.
"""

from penstock.base.ids import ZERO_ID, TopicPartition, format_id
from penstock.sim.disk import SimDisk
from penstock.sim.entries import CopyForeignDirectory
from penstock.sim.node import Node
from penstock.storage import file_names
from penstock.storage.partition_directories import STRAY, parse_removed_name, partition_of, topic_id_in

_FOREIGN_TOPIC = f"version: 0\ntopic_id: {format_id(b'of somebody else')}\n".encode()
_FOREIGN_FILES = {
    f"{0:020d}{file_names.LOG}": b"records of somebody else",
    f"{0:020d}{file_names.LOG}{file_names.DELETED}": b"not for this broker to tidy",
    file_names.PARTITION_METADATA: _FOREIGN_TOPIC,
}


def copy_foreign_directory(disk: SimDisk, fault: CopyForeignDirectory) -> None:
    if fault.name not in disk.names(""):
        disk.put(fault.name, _FOREIGN_FILES if fault.is_partition else {"beach.jpg": b"sand"})


def has_segments(disk: SimDisk, directory: str) -> bool:
    return any(file_names.offset_in(name, file_names.LOG) is not None for name in disk.names(directory))


def has_partitions(disk: SimDisk) -> bool:
    """Whether anything on the disk looks like a partition."""
    return any(partition_of(name) is not None and has_segments(disk, name) for name in disk.names(""))


def missing_foreign_directories(node: Node) -> list[str]:
    """Foreign directories that are neither unchanged nor renamed."""
    disk = node.disk
    return [
        f"{node.host}: {directory} does not belong to the broker, and was removed or changed"
        for directory, files in disk.foreign
        if not any(_files_in(disk, location) == files for location in _locations(disk, directory))
    ]


def leftover_partition_directories(node: Node) -> list[str]:
    """Directories of partitions that the node has no replica of, though their topic id is known."""
    assert node.broker is not None
    held = {
        TopicPartition(partition.topic, partition.index)
        for partition in node.broker.services.logs.replicas.all()
    }
    disk = node.disk
    foreign = {directory for directory, _ in disk.foreign}
    return [
        f"{node.host}: {name} was not removed, though its topic is deleted or its replica has moved"
        for name in disk.names("")
        if (partition := partition_of(name)) is not None
        and partition not in held
        and name not in foreign
        and has_segments(disk, name)
        and topic_id_in(_files_in(disk, name).get(file_names.PARTITION_METADATA, b"")) != ZERO_ID
    ]


def _locations(disk: SimDisk, directory: str) -> list[str]:
    """Where a foreign directory may be: under its own name, or renamed."""
    partition = partition_of(directory)
    asides = [
        name
        for name in disk.names("")
        if (removed := parse_removed_name(name)) is not None
        and removed.partition == partition
        and removed.suffix == STRAY
    ]
    return [each for each in (directory, *asides) if each in disk.names("")]


def _files_in(disk: SimDisk, directory: str) -> dict[str, bytes]:
    return {name: disk.content(f"{directory}/{name}") for name in disk.names(directory)}
