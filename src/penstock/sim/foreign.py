"""Directories that somebody else has put into a broker's data directory: they stay, and nothing else is left behind."""

from penstock.base.ids import ZERO_ID, TopicPartition, format_id
from penstock.sim.disk import SimDisk
from penstock.sim.entries import CopyForeign
from penstock.sim.node import Node
from penstock.storage import file_names
from penstock.storage.partition_directories import STRAY, aside_of, partition_of, topic_id_in

_THEIR_TOPIC = f"version: 0\ntopic_id: {format_id(b'of somebody else')}\n".encode()
_THEIR_FILES = {
    f"{0:020d}{file_names.LOG}": b"records of somebody else",
    f"{0:020d}{file_names.LOG}{file_names.DELETED}": b"not for this broker to tidy",
    file_names.PARTITION_METADATA: _THEIR_TOPIC,
}


def copy_foreign(disk: SimDisk, fault: CopyForeign) -> None:
    if fault.name not in disk.names(""):
        disk.put(fault.name, _THEIR_FILES if fault.is_partition else {"beach.jpg": b"sand"})


def has_segments(disk: SimDisk, directory: str) -> bool:
    return any(file_names.offset_in(name, file_names.LOG) is not None for name in disk.names(directory))


def has_partitions(disk: SimDisk) -> bool:
    """Whether anything on the disk looks like a partition."""
    return any(partition_of(name) is not None and has_segments(disk, name) for name in disk.names(""))


def vanished(node: Node) -> list[str]:
    """What others have put on a node's disk, and is neither there nor set aside."""
    disk = node.disk
    return [
        f"{node.host}: {directory} was put there by somebody else, and is gone or changed"
        for directory, files in disk.foreign
        if not any(_files_in(disk, place) == files for place in _places(disk, directory))
    ]


def left_behind(node: Node) -> list[str]:
    """Partitions' directories that the node has no replica for, though they say whose they are."""
    assert node.broker is not None
    held = {
        TopicPartition(partition.topic, partition.index) for partition in node.broker.services.replicas.all()
    }
    disk = node.disk
    foreign = {directory for directory, _ in disk.foreign}
    return [
        f"{node.host}: {name} is of a topic that is deleted, or of a replica that is elsewhere"
        for name in disk.names("")
        if (partition := partition_of(name)) is not None
        and partition not in held
        and name not in foreign
        and has_segments(disk, name)
        and topic_id_in(_files_in(disk, name).get(file_names.PARTITION_METADATA, b"")) != ZERO_ID
    ]


def _places(disk: SimDisk, directory: str) -> list[str]:
    """Where a directory may be: in its place, or set aside."""
    partition = partition_of(directory)
    asides = [
        name
        for name in disk.names("")
        if (aside := aside_of(name)) is not None and aside.partition == partition and aside.suffix == STRAY
    ]
    return [each for each in (directory, *asides) if each in disk.names("")]


def _files_in(disk: SimDisk, directory: str) -> dict[str, bytes]:
    return {name: disk.content(f"{directory}/{name}") for name in disk.names(directory)}
