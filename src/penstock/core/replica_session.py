"""A follower's side of a fetch session (KIP-227): what to say of its partitions, so that the leader knows the rest.

The leader's side is `fetch_sessions`. A session begins with a full request, and ends with any trouble: the next request
is a full one again. A leader without room for one gives none; then every request is full.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.base.errors import ErrorCode
from penstock.core.fetch_sessions import INITIAL_EPOCH, NO_SESSION, FetchTarget, PartitionKey, next_epoch


class Asked(NamedTuple):
    """The session part of a fetch request."""

    session_id: int
    epoch: int
    wanted: dict[PartitionKey, FetchTarget]
    forgotten: list[PartitionKey]


class ReplicaSession:
    """The session of one follower with one leader."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[PartitionKey, FetchTarget] = {}  # to the leader

    @property
    def says_all(self) -> bool:
        """Whether the next request has to name every partition."""
        return self._epoch == INITIAL_EPOCH

    def ask_about(self, changed: Mapping[PartitionKey, FetchTarget], gone: Iterable[PartitionKey]) -> Asked:
        """How to ask for `changed`, and for what was asked before without `gone`. Costs nothing for the rest."""
        assert not self.says_all
        told = {key: one for key, one in changed.items() if self._is_news(key, one)}
        forgotten = [key for key in gone if self._known.pop(key, None) is not None]
        self._known.update(changed)
        return Asked(self._id, self._epoch, told, forgotten)

    def _is_news(self, key: PartitionKey, one: FetchTarget) -> bool:
        # Which high watermark a follower knows is the leader's to remember in a session.
        known = self._known.get(key)
        return known is None or known[:-1] != one[:-1]

    def ask(self, wanted: Mapping[PartitionKey, FetchTarget]) -> Asked:
        """How to ask for all of `wanted`, and for nothing else."""
        if self.says_all:
            self._known = dict(wanted)
            return Asked(self._id, INITIAL_EPOCH, dict(wanted), [])
        changed = {key: one for key, one in wanted.items() if self._is_news(key, one)}
        forgotten = [key for key in self._known if key not in wanted]
        self._known = dict(wanted)
        return Asked(self._id, self._epoch, changed, forgotten)

    def answered(self, *, session_id: int, error: ErrorCode) -> None:
        if error is ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            self.restart()
        elif error is not ErrorCode.NONE or session_id == NO_SESSION:
            self.reset()
        else:
            self._id = session_id
            self._epoch = next_epoch(self._epoch)

    def restart(self) -> None:
        """Something of an answer was not taken: the leader is to tell everything again. It closes the session."""
        self._epoch = INITIAL_EPOCH

    def reset(self) -> None:
        """Nobody knows what the leader knows."""
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known = {}
