"""The server of the simulated metadata stores: one tree of nodes, the sessions that share it, and their watches.

It stands for a whole ZooKeeper ensemble and never fails itself. What fails: the connection to it (`StoreServer.cut`), a
session (`StoreServer.expire`), and the processes that have sessions; a session without a heartbeat for its timeout is
expired. Servers that lag behind others are not simulated: all sessions see the same state.
"""

import random
from collections.abc import Callable, Sequence

from penstock.cluster.node_tree import Change, NewSession, NodeTree, Put, Remove, split
from penstock.sim.store import SimStore
from penstock.sim.store_link import StoreLink
from penstock.world.loop import Loop
from penstock.world.store import Delete, Operation, SessionExpiredError, StoreError

SESSION_TIMEOUT_MS = 6_000

# Notifies a watch of a store, in the process of that store.
Ring = Callable[[], None]
Watches = dict[str, list[Ring]]


class ServerSession:
    """The server's state of one session."""

    def __init__(self, number: int, *, timeout_s: float, heard_at: float) -> None:
        self.number = number
        self.timeout_s = timeout_s
        self.heard_at = heard_at


class StoreServer:
    """Opens stores that share a tree. `loop` is a process of its own, which is never killed."""

    def __init__(self, loop: Loop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._tree = NodeTree()
        self._owners: dict[str, int] = {}  # ephemeral path → number of its session
        self._sessions: dict[int, ServerSession] = {}
        self._session_count = 0
        self._node_watches: Watches = {}
        self._child_watches: Watches = {}
        self.on_change: Callable[[str], None] | None = None  # for observers outside of the simulation

    async def open(self, loop: Loop, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> SimStore:
        """A store with a session of its own, for the process whose loop it is."""
        store = self.new_store(loop, session_timeout_ms=session_timeout_ms)
        await store.begin()
        return store

    def new_store(self, loop: Loop, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> SimStore:
        """A store whose session has not begun: its connection may be cut already."""
        return SimStore(self, loop, timeout_s=session_timeout_ms / 1000)

    @property
    def tree(self) -> NodeTree:
        """The committed tree, for checks."""
        return self._tree

    # Faults.

    def cut(self, store: SimStore, *, silently: bool = False) -> None:
        """Break the connection of a store until `mend`; silently: the store notices only by its timeout."""
        store.cut(silently=silently)

    def mend(self, store: SimStore) -> None:
        store.mend()

    def expire(self, store: SimStore) -> None:
        """End a session as if its timeout had passed."""
        session = self._sessions.get(store.number)
        if session is not None:
            self._end(session)

    # What stores send. Runs as the server's process.

    def new_link(self, store: Loop) -> StoreLink:
        return StoreLink(store=store, server=self._loop, chance=self._chance)

    def greet(self, store: SimStore, link: StoreLink, number: int, timeout_s: float) -> None:
        """Accept a connection of a store: with number 0 a new session, else the session of that number continues."""
        if number == 0:
            number = self._begin(timeout_s)
        if self._is_connected(number):
            link.to_store.send(store.accepted, link, number)
        else:
            link.to_store.send(store.expired)

    def ping(self, store: SimStore, link: StoreLink, number: int) -> None:
        if self._is_connected(number):
            link.to_store.send(store.hear)
        else:
            link.to_store.send(store.expired)

    def answer(
        self, number: int, link: StoreLink, reply: Callable[[object], None], request: Callable[[int], object]
    ) -> None:
        """Carry out a request of a session, and send the response or the error."""
        try:
            if not self._is_connected(number):
                raise SessionExpiredError("the session with the metadata store expired")
            outcome = request(number)
        except StoreError as error:
            outcome = error
        link.to_store.send(reply, outcome)

    def read_node(self, path: str, ring: Ring | None, _number: int) -> object:
        node = self._tree.get(path)
        if ring is not None:
            self._node_watches.setdefault(path, []).append(ring)
        return node

    def read_children(self, path: str, ring: Ring | None, _number: int) -> object:
        names = self._tree.children(path)
        if ring is not None:
            self._child_watches.setdefault(path, []).append(ring)
        return names

    def change(self, operations: Sequence[Operation], number: int) -> None:
        changes = self._tree.perform(operations)
        for change in changes:
            self._fire(change)
            self._note_owner(change, number)
        if self.on_change is not None:
            for change in changes:
                assert not isinstance(change, NewSession)
                self.on_change(change.path)

    def close_session(self, number: int) -> None:
        self._end(self._sessions[number])

    # Sessions.

    def _begin(self, timeout_s: float) -> int:
        self._session_count += 1
        session = ServerSession(self._session_count, timeout_s=timeout_s, heard_at=self._loop.time())
        self._sessions[session.number] = session
        self._loop.call_later(timeout_s, self._end_if_silent, session)
        return session.number

    def _is_connected(self, number: int) -> bool:
        session = self._sessions.get(number)
        if session is not None:
            session.heard_at = self._loop.time()
        return session is not None

    def _end_if_silent(self, session: ServerSession) -> None:
        if session.number not in self._sessions:
            return
        left_s = session.heard_at + session.timeout_s - self._loop.time()
        if left_s > 0:
            self._loop.call_later(left_s, self._end_if_silent, session)
        else:
            self._end(session)

    def _end(self, session: ServerSession) -> None:
        """End a session: its ephemeral nodes are deleted at once, and its next request fails."""
        del self._sessions[session.number]
        owned = [path for path, owner in self._owners.items() if owner == session.number]
        self.change([Delete(path) for path in owned], session.number)

    # The tree.

    def _note_owner(self, change: Change, number: int) -> None:
        match change:
            case Put(path, node, ephemeral=True) if node.version == 0:
                self._owners[path] = number
            case Remove(path):
                self._owners.pop(path, None)

    def _fire(self, change: Change) -> None:
        """Notify the watches on a changed node, and on its parent if the node was created or deleted."""
        assert not isinstance(change, NewSession)
        path = change.path
        rings = self._node_watches.pop(path, [])
        if isinstance(change, Remove):
            rings += self._child_watches.pop(path, [])
        if isinstance(change, Remove) or change.node.version == 0:
            rings += self._child_watches.pop(split(path)[0], [])
        for ring in rings:
            ring()
