"""The tree of files and directories: as processes see it, and as a power cut may leave it.

A directory has, on the device, the names of its last sync. Of the changes since then it has those up to
some moment or, on a file system that keeps no order, any. A name may survive while the file's content does not.
"""

import errno
import os
from collections.abc import Iterator
from random import Random
from typing import TypeAlias

from penstock.sim.disk_contents import Content


class FileNode:
    """A file in the tree."""

    def __init__(self, name: str, parent: "DirectoryNode") -> None:
        self.name = name
        self.parent: DirectoryNode | None = parent  # None once it is removed
        self.content = Content()

    def lose_power(self, random: Random, *, page_bytes: int) -> None:
        self.content.lose_power(random, page_bytes=page_bytes)


class DirectoryNode:
    """A directory: its present names, and those of the last sync."""

    def __init__(self, name: str, parent: "DirectoryNode | None") -> None:
        self.name = name
        self.parent = parent
        self.entries: dict[str, Node] = {}
        self._synced: dict[str, Node] = {}
        self._changes: list[_NameChange] = []  # since the last sync

    def add(self, node: "Node") -> None:
        self._change(_NameChange(node.name, created=node))

    def put(self, node: "Node") -> None:
        """Add a name, synced."""
        self.entries[node.name] = self._synced[node.name] = node

    def take_away(self, name: str) -> "Node":
        """Remove a name and return its node, synced."""
        self._synced.pop(name, None)
        return self.entries.pop(name)

    def rename(self, source: str, target: str) -> None:
        replaced = self.entries.get(target)
        if replaced is not None:
            _detach(replaced)
        self.entries[source].name = target
        self._change(_NameChange(source, target))

    def remove(self, name: str) -> None:
        """Remove a name and all below it; a power cut may bring back a part of a tree, too."""
        node = self.entries[name]
        if isinstance(node, DirectoryNode):
            for inner in sorted(node.entries):
                node.remove(inner)
        _detach(node)
        self._change(_NameChange(name))

    def _change(self, change: "_NameChange") -> None:
        change.apply(self.entries)
        self._changes.append(change)

    def sync(self) -> None:
        self._synced = dict(self.entries)
        self._changes = []

    def lose_power(self, random: Random, *, page_bytes: int) -> None:
        """Go back to the names of the device, here and below."""
        self.entries = dict(self._synced)
        if random.random() < 0.5:
            happened = self._changes[: random.randint(0, len(self._changes))]
        else:
            happened = [change for change in self._changes if random.random() < 0.5]
        for change in happened:
            change.apply(self.entries)
        self.sync()
        for name in sorted(self.entries):
            node = self.entries[name]
            node.name, node.parent = name, self
            node.lose_power(random, page_bytes=page_bytes)


Node: TypeAlias = FileNode | DirectoryNode


class _NameChange:
    """A file is created, renamed or removed; nothing happens if it does not exist."""

    def __init__(self, source: str, target: str | None = None, *, created: Node | None = None) -> None:
        self._source = source
        self._target = target
        self._created = created

    def apply(self, entries: dict[str, Node]) -> None:
        if self._created is not None:
            entries[self._source] = self._created
            return
        moved = entries.pop(self._source, None)
        if moved is not None and self._target is not None:
            entries[self._target] = moved


def _detach(node: Node) -> None:
    node.parent = None


class Device:
    """The tree from its root, found by paths."""

    def __init__(self) -> None:
        self.root = DirectoryNode("", None)

    def place(self, path: str) -> tuple[DirectoryNode, str]:
        """The directory a path's last name is, or would be, in."""
        parent, _, name = path.rpartition("/")
        return self.directory(parent), name

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in path.split("/") if path else ():
            if not isinstance(node, DirectoryNode):
                return None
            node = node.entries.get(name)
        return node

    def directory(self, path: str) -> DirectoryNode:
        node = self.find(path)
        if node is None:
            raise error(errno.ENOENT, path)
        if isinstance(node, FileNode):
            raise error(errno.ENOTDIR, path)
        return node

    def put(self, path: str, content: bytes) -> FileNode:
        """Create a file and the directories above it, synced."""
        *above, name = path.split("/")
        directory = self.root
        for each in above:
            node = directory.entries.get(each)
            if node is None:
                node = DirectoryNode(each, directory)
                directory.put(node)
            assert isinstance(node, DirectoryNode)
            directory = node
        file = FileNode(name, directory)
        file.content.append(content)
        file.content.sync()
        directory.put(file)
        return file

    def files(self) -> Iterator[FileNode]:
        """Every file, in the order of paths."""
        yield from _files_below(self.root)

    def sync(self) -> None:
        """Sync everything."""
        for file in self.files():
            file.content.sync()
        for directory in _directories_below(self.root):
            directory.sync()

    @property
    def used_bytes(self) -> int:
        return sum(file.content.size for file in self.files())


def path_of(node: Node) -> str:
    parts: list[str] = []
    above: Node | None = node
    while above is not None and above.name:
        parts.append(above.name)
        above = above.parent
    return "/".join(reversed(parts))


def error(number: int, path: str) -> OSError:
    """The OSError that the system would raise."""
    return OSError(number, os.strerror(number), path)


def _files_below(directory: DirectoryNode) -> Iterator[FileNode]:
    for name in sorted(directory.entries):
        node = directory.entries[name]
        if isinstance(node, FileNode):
            yield node
        else:
            yield from _files_below(node)


def _directories_below(directory: DirectoryNode) -> Iterator[DirectoryNode]:
    yield directory
    for name in sorted(directory.entries):
        node = directory.entries[name]
        if isinstance(node, DirectoryNode):
            yield from _directories_below(node)
