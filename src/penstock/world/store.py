"""The metadata store: a small tree of versioned nodes, enough to agree and to fence with.

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
    """The root of what a store refuses."""


class NoNodeError(StoreError):
    """The node, or the parent of one to create, does not exist."""


class NodeExistsError(StoreError):
    """A node to create is there already."""


class BadVersionError(StoreError):
    """The node's version is not the one the caller expected: somebody else was faster."""


class NotEmptyError(StoreError):
    """A node to delete still has children."""


class ConnectionLossError(StoreError):
    """The link to the store broke, or is broken: whether a change was made is not known."""


class SessionExpiredError(StoreError):
    """The session is over, by expiry or by `close`; so is the store object. Begin again with another."""


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
    """What the store knows about its link to the ensemble."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class Store(Protocol):
    """The tree. A watch fires once; whoever wants more asks again.

    Of several sessions each sees changes in one order, and its own at once; others' may arrive later, announced by a
    watch before they can be read. A watch also fires when the link breaks, for it might miss what it waits for.
    While the link is broken every call raises ConnectionLossError; after the session every call raises
    SessionExpiredError, and ephemeral nodes of the session are gone.
    """

    async def get(self, path: str, *, watch: Callable[[], None] | None = None) -> StoreNode: ...

    async def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        """The names below a node, sorted."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """All of the operations or, where one is refused, none, raising that one's error."""
        ...

    def on_session(self, callback: Callable[[SessionState], None]) -> None: ...

    async def close(self) -> None: ...
