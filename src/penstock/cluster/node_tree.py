"""The embedded store's tree of nodes in memory: turns operations into changes, and applies changes."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from penstock.world.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Set,
    StoreError,
    StoreNode,
)

ROOT = "/"


class Put(NamedTuple):
    """Create or replace the node at `path`."""

    path: str
    node: StoreNode
    ephemeral: bool


class Remove(NamedTuple):
    """Remove the node at `path`."""

    path: str


class NewSession(NamedTuple):
    """Begin a session: remove the ephemeral nodes of the one before."""


Change: TypeAlias = Put | Remove | NewSession


class NodeTree:
    """Nodes by path. The root always exists."""

    def __init__(self) -> None:
        self._nodes: dict[str, StoreNode] = {ROOT: StoreNode(b"", 0)}
        self._ephemerals: dict[str, None] = {}  # dicts instead of sets, because their order is deterministic
        self._names: dict[str, dict[str, None]] = {}  # the names of children by their parent's path

    def __contains__(self, path: str) -> bool:
        return path in self._nodes

    def get(self, path: str) -> StoreNode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(f"there is no node {path}")
        return node

    def children(self, path: str) -> list[str]:
        self.get(path)
        return sorted(self._names.get(path, ()))

    def copy(self) -> "NodeTree":
        """A tree that changes independently; the immutable nodes are shared."""
        other = NodeTree()
        other._nodes = dict(self._nodes)
        other._ephemerals = dict(self._ephemerals)
        other._names = {parent: dict(names) for parent, names in self._names.items()}
        return other

    def nodes(self) -> dict[str, StoreNode]:
        """A shallow copy of all nodes by path."""
        return dict(self._nodes)

    def ephemerals(self) -> dict[str, None]:
        """A copy of the paths of all ephemeral nodes."""
        return dict(self._ephemerals)

    def perform(self, operations: Sequence[Operation]) -> list[Change]:
        """Apply all operations and return the changes; if one is refused, change nothing and raise."""
        changes: list[Change] = []
        undo: list[Put | Remove] = []
        try:
            for operation in operations:
                change = self._decide(operation)
                if change is not None:
                    undo.append(self._inverse(change))
                    self.apply(change)
                    changes.append(change)
        except StoreError:
            self.apply_all(reversed(undo))
            raise
        return changes

    def apply(self, change: Change) -> None:
        """Apply a change that `perform` returned, or that was read from the log."""
        match change:
            case Put(path, node, ephemeral):
                if path not in self._nodes:
                    parent, name = split(path)
                    self._names.setdefault(parent, {})[name] = None
                self._nodes[path] = node
                if ephemeral:
                    self._ephemerals[path] = None
            case Remove(path):
                del self._nodes[path]
                self._ephemerals.pop(path, None)
                parent, name = split(path)
                names = self._names[parent]
                del names[name]
                if not names:
                    del self._names[parent]
            case NewSession():
                for path in self.ephemerals():
                    self.apply(Remove(path))

    def apply_all(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.apply(change)

    def _decide(self, operation: Operation) -> Put | Remove | None:
        match operation:
            case Create(path, data, ephemeral):
                self._check_place(path)
                return Put(path, StoreNode(data, 0), ephemeral)
            case Set(path, data, version):
                node = self._checked(path, version)
                return Put(path, StoreNode(data, node.version + 1), path in self._ephemerals)
            case Delete(path, version):
                self._checked(path, version)
                assert path != ROOT, "the root cannot be deleted"
                if path in self._names:
                    raise NotEmptyError(f"{path} still has children")
                return Remove(path)
            case Check(path, version):
                self._checked(path, version)
        return None

    def _check_place(self, path: str) -> None:
        if path in self._nodes:
            raise NodeExistsError(f"{path} exists already")
        parent, name = split(path)
        assert name, f"{path!r} is not a path of the store"
        if parent not in self._nodes:
            raise NoNodeError(f"{path} cannot be created: there is no node {parent}")
        if parent in self._ephemerals:
            raise StoreError(f"{path} cannot be created: {parent} is ephemeral and has no children")

    def _checked(self, path: str, version: int) -> StoreNode:
        node = self.get(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path} has version {node.version}, not {version}")
        return node

    def _inverse(self, change: Put | Remove) -> Put | Remove:
        path = change.path
        if path not in self._nodes:
            return Remove(path)
        return Put(path, self._nodes[path], path in self._ephemerals)


def split(path: str) -> tuple[str, str]:
    """A path's parent and its own name."""
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name
