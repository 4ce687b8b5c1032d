"""The metadata store: a small tree of versioned nodes, with sessions and conditional writes, as ZooKeeper has them.

Paths look like '/topics/orders'. Every node has a version that starts at 0 and grows by one with each set.
Three implementations keep one contract: embedded (an append-only log), ZooKeeper, and the simulation's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from penstock.base.errors import PenstockError

ANY_VERSION = -1


class StoreError(PenstockError):
    """The base class of a store's errors."""


class NoNodeError(StoreError):
    """The node, or the parent of one to create, does not exist."""


class NodeExistsError(StoreError):
    """A node to create exists already."""


class BadVersionError(StoreError):
    """The node's version is not the one the caller expected: another session has changed it."""


class NotEmptyError(StoreError):
    """A node to delete still has children."""


class ConnectionLossError(StoreError):
    """The connection to the store is lost: whether a change was made is unknown."""


class SessionExpiredError(StoreError):
    """The session has expired or was closed; a new store object is needed."""


class StoreNode(NamedTuple):
    """What a node holds."""

    data: bytes
    version: int


@dataclass(frozen=True)
class Create:
    """Create a node; its parent must exist."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True)
class Set:
    """Replace a node's data if it has `version`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True)
class Delete:
    """Delete a childless node if it has `version`."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True)
class Check:
    """Fail the whole `multi` unless the node exists and has `version`."""

    path: str
    version: int = ANY_VERSION


Operation: TypeAlias = Create | Set | Delete | Check


class SessionState(Enum):
    """The state of the session with the ensemble."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class Store(Protocol):
    """The tree. A watch fires once; read again with a watch to get the next change.

    All sessions see changes in the same order, and each its own at once. Changes of other sessions may arrive later; a
    watch fires before they can be read. A watch also fires when the connection is lost, since it might miss a change.
    While the connection is lost every call raises ConnectionLossError; after the session has ended every call raises
    SessionExpiredError, and the session's ephemeral nodes are gone.
    """

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode: ...

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        """The names below a node, sorted."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Carry out all operations, or none: raises the error of the first that fails."""
        ...

    def on_session(self, callback: Callable[[SessionState], None]) -> None: ...

    async def close(self) -> None: ...
