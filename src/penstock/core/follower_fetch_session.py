"""A follower's side of a fetch session (KIP-227): which partitions a request has to name.

The leader's side is `fetch_sessions`. A session begins with a full request, which names all partitions, and ends with
any error: the next request is full again. A leader without a free slot opens no session; then every request is full.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.base.errors import ErrorCode
from penstock.core.fetch_sessions import INITIAL_EPOCH, NO_SESSION, FetchTarget, PartitionKey, next_epoch


class SessionRequest(NamedTuple):
    """The session part of a fetch request."""

    session_id: int
    epoch: int
    wanted: dict[PartitionKey, FetchTarget]
    forgotten: list[PartitionKey]


class FollowerFetchSession:
    """The session of one follower with one leader."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[PartitionKey, FetchTarget] = {}  # as the leader has them

    @property
    def is_next_full(self) -> bool:
        """Whether the next request has to name every partition."""
        return self._epoch == INITIAL_EPOCH

    def incremental_request(
        self, changed: Mapping[PartitionKey, FetchTarget], gone: Iterable[PartitionKey]
    ) -> SessionRequest:
        """A request for `changed` and all other partitions of the session but `gone`; costs nothing for the others."""
        assert not self.is_next_full
        changes = {key: one for key, one in changed.items() if self._has_changed(key, one)}
        forgotten = [key for key in gone if self._known.pop(key, None) is not None]
        self._known.update(changed)
        return SessionRequest(self._id, self._epoch, changes, forgotten)

    def _has_changed(self, key: PartitionKey, one: FetchTarget) -> bool:
        # Not compared: the last field, the high watermark. In a session the leader knows which one it has sent.
        known = self._known.get(key)
        return known is None or known[:-1] != one[:-1]

    def request(self, wanted: Mapping[PartitionKey, FetchTarget]) -> SessionRequest:
        """A request for exactly the partitions of `wanted`: full, or the difference to the session."""
        if self.is_next_full:
            self._known = dict(wanted)
            return SessionRequest(self._id, INITIAL_EPOCH, dict(wanted), [])
        changed = {key: one for key, one in wanted.items() if self._has_changed(key, one)}
        forgotten = [key for key in self._known if key not in wanted]
        self._known = dict(wanted)
        return SessionRequest(self._id, self._epoch, changed, forgotten)

    def answered(self, *, session_id: int, error: ErrorCode) -> None:
        if error is ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            self.restart()
        elif error is not ErrorCode.NONE or session_id == NO_SESSION:
            self.reset()
        else:
            self._id = session_id
            self._epoch = next_epoch(self._epoch)

    def restart(self) -> None:
        """Send a full request next, since a response was not applied completely; the leader closes the session then."""
        self._epoch = INITIAL_EPOCH

    def reset(self) -> None:
        """Forget the session: it is unknown which partitions the leader has."""
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known = {}
