"""Fetch sessions (KIP-227): a client names its partitions once, then only changes; responses have only changes, too.

A request says which session it means by an id and by an epoch that grows with every fetch:

    epoch -1                 all partitions are listed; no session, and one that is named is closed
    epoch 0                  the same, but a new session may be opened for them
    epoch n, id of session   only changes to the session's partitions: added, moved or forgotten

Flow: `FetchSessions.begin` returns a `Fetch`, or an error for the whole request; the caller reads the fetch's
`partitions()` in their order, and passes the outcomes to `finish`, which says which of them go into the response.

Partitions are keyed by topic id (v13 on) or topic name (before), and number. A partition whose records were
sent goes to the end of its session, so that under `max_bytes` none can starve the others.

A follower's session has all partitions that follow one leader, of which most are idle. A fetch skips those that are
marked as idle, until `services.fetching.idle_partitions` marks them as active because something happened there, or
until a request names them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from penstock.base.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

# A session that was used or opened more recently than this is not evicted for less valuable ones.
EVICTION_MS_MIN = 120_000

_ID_LIMIT = 2**31 - 1
_EPOCH_MAX = 2**31 - 1
_NOTHING = -1

PartitionKey: TypeAlias = tuple[bytes | str, int]


class FetchTarget(NamedTuple):
    """The fetch of one partition: from which offset, how much, and what the client knows."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    high_watermark: int | None = None  # the one the follower knows, if it sends one


class PartitionOutcome(NamedTuple):
    """The outcome of one partition, as far as it decides whether the response has it."""

    high_watermark: int
    log_start_offset: int
    records_size: int = 0
    error: ErrorCode = ErrorCode.NONE
    # The response has a preferred read replica or a diverging epoch.
    notice: bool = False


Outcomes: TypeAlias = Mapping[PartitionKey, PartitionOutcome]


class Answer(NamedTuple):
    """The session part of a fetch response; with an error, the response has no partitions."""

    error: ErrorCode
    session_id: int
    included: list[PartitionKey]


class _Cached:
    """A partition in a session: the client's target, and the offsets of the last response that had it."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchTarget) -> None:
        self.wanted = wanted
        self.high_watermark = _NOTHING
        self.log_start_offset = _NOTHING

    def has_changed(self, outcome: PartitionOutcome) -> bool:
        return (
            outcome.records_size > 0
            or outcome.high_watermark != self.high_watermark
            or outcome.log_start_offset != self.log_start_offset
            or outcome.error is not ErrorCode.NONE
            or outcome.notice
        )

    def note_sent(self, outcome: PartitionOutcome) -> None:
        # After an error the next response without one has the partition, whatever its offsets are.
        failed = outcome.error is not ErrorCode.NONE
        self.high_watermark = _NOTHING if failed else outcome.high_watermark
        self.log_start_offset = outcome.log_start_offset


class IdleWatch(Protocol):
    """Watches the idle partitions of a session (`services.fetching.idle_partitions`)."""

    def end(self) -> None:
        """The session is over."""
        ...


class _Session:
    __slots__ = (
        *("active", "created_ms", "epoch", "follower", "id", "partitions"),
        *("used_ms", "uses_topic_ids", "idle_watch"),
    )

    def __init__(self, *, follower: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = NO_SESSION
        self.follower = follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        # The epoch the next request has to come with.
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[PartitionKey, _Cached] = {}
        self.active: dict[PartitionKey, None] = {}  # not idle; in the order in which they are read
        self.idle_watch: IdleWatch | None = None


class FetchSessions:
    """The sessions of one broker: at most `slots`, with at most `partitions_max` partitions between them."""

    def __init__(
        self,
        *,
        slots: int,
        partitions_max: int,
        random_below: Callable[[int], int],
        eviction_ms: int = EVICTION_MS_MIN,
    ) -> None:
        self._slots = slots
        self._partitions_max = partitions_max
        self._random_below = random_below
        self._eviction_ms = eviction_ms
        # The longest unused first.
        self._sessions: dict[int, _Session] = {}
        self.partition_count = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        *,
        session_id: int,
        epoch: int,
        wanted: Mapping[PartitionKey, FetchTarget],
        forgotten: Iterable[PartitionKey] = (),
        uses_topic_ids: bool,
        follower: bool = False,
        now_ms: int,
    ) -> "Fetch | ErrorCode":
        """Begin a fetch, or return its error. Requests before version 7 have no sessions: id 0 and epoch -1."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(session_id)
            if epoch == FINAL_EPOCH:
                return FullFetch(wanted)
            session = _Session(follower=follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
            return FullFetch(wanted, lambda outcomes: self._open(session, wanted, outcomes))
        known = self._sessions.get(session_id)
        if known is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if known.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return self._continue(known, wanted, forgotten, now_ms)

    def _continue(
        self,
        session: _Session,
        wanted: Mapping[PartitionKey, FetchTarget],
        forgotten: Iterable[PartitionKey],
        now_ms: int,
    ) -> "Fetch | ErrorCode":
        session.epoch = next_epoch(
            session.epoch
        )  # first: a fetch of this session that is in flight is outdated now
        before = len(session.partitions)
        _update(session, wanted, forgotten)
        self.partition_count += len(session.partitions) - before
        if not session.partitions:
            self._close(session.id)
            return FullFetch({})
        if self.partition_count > self._partitions_max:
            # The client sends a full request next, and is served without a session.
            self._close(session.id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        return IncrementalFetch(session)

    def _open(self, session: _Session, wanted: Mapping[PartitionKey, FetchTarget], outcomes: Outcomes) -> int:
        """Open a session for the partitions of a response, if there is a free slot; its id."""
        size = len(outcomes)
        if size == 0 or self._slots == 0 or self.partition_count + size > self._partitions_max:
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict(
            (session.follower, size), now_ms=session.used_ms
        ):
            return NO_SESSION
        session.id = self._new_id()
        for key, outcome in outcomes.items():
            cached = session.partitions[key] = _Cached(wanted[key])
            cached.note_sent(outcome)
            session.active[key] = None
        self._sessions[session.id] = session
        self.partition_count += size
        return session.id

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._random_below(_ID_LIMIT)
            if session_id not in self._sessions:
                return session_id

    def _evict(self, newcomer: tuple[bool, int], *, now_ms: int) -> bool:
        """Evict a session that was not used for long, else the least valuable; False if none may be evicted."""
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.used_ms <= self._eviction_ms:
            least = min(self._evictable(newcomer, now_ms), key=_value, default=None)
            if least is None or _value(least) >= newcomer:
                return False
            victim = least
        self._close(victim.id)
        self.evictions += 1
        return True

    def _evictable(self, newcomer: tuple[bool, int], now_ms: int) -> Iterator[_Session]:
        # A follower's session may evict any consumer's; else sessions opened recently are not evicted.
        for session in self._sessions.values():
            if now_ms - session.created_ms > self._eviction_ms or (newcomer[0] and not session.follower):
                yield session

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
            if session.idle_watch is not None:
                session.idle_watch.end()


class FullFetch:
    """A full fetch: the request names all partitions, and the response has all of them."""

    has_idle = False

    def __init__(
        self,
        wanted: Mapping[PartitionKey, FetchTarget],
        open_session: Callable[[Outcomes], int] | None = None,
    ) -> None:
        self._wanted = wanted
        self._open_session = open_session

    def __len__(self) -> int:
        return len(self._wanted)

    def partitions(self) -> list[tuple[PartitionKey, FetchTarget]]:
        """What to read, in this order."""
        return list(self._wanted.items())

    def known_high_watermark(self, key: PartitionKey) -> int | None:
        """The high watermark that the follower has sent."""
        return self._wanted[key].high_watermark

    def finish(self, outcomes: Outcomes) -> Answer:
        """Which partitions go into the answer. Call once, when the answer is sent."""
        session_id = NO_SESSION if self._open_session is None else self._open_session(outcomes)
        return Answer(ErrorCode.NONE, session_id, list(outcomes))


class IncrementalFetch:
    """An incremental fetch: of the session's partitions, the response has those that changed."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._epoch = session.epoch

    def __len__(self) -> int:
        """The number of partitions that are read. Grows when one is marked as active."""
        return len(self._session.active)

    def partitions(self) -> list[tuple[PartitionKey, FetchTarget]]:
        """What to read, in this order: all but the idle partitions."""
        partitions = self._session.partitions
        return [(key, partitions[key].wanted) for key in self._session.active]

    def known_high_watermark(self, key: PartitionKey) -> int | None:
        """The high watermark in the last response that had the partition."""
        cached = self._session.partitions.get(key)
        return None if cached is None else cached.high_watermark

    def finish(self, outcomes: Outcomes) -> Answer:
        """Which partitions go into the answer. Call once, when the answer is sent."""
        session = self._session
        if session.epoch != self._epoch:
            # The client sent its next request before this response: it has abandoned this one.
            return Answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, [])
        included = []
        for key, outcome in outcomes.items():
            cached = session.partitions[key]
            if not cached.has_changed(outcome):
                continue
            included.append(key)
            cached.note_sent(outcome)
            if outcome.records_size > 0:
                session.active.pop(key, None)
                session.active[key] = None
        return Answer(ErrorCode.NONE, session.id, included)

    # Idle partitions.

    @property
    def idle_watch(self) -> IdleWatch | None:
        """The watch of the idle partitions, as it was set."""
        return self._session.idle_watch

    @idle_watch.setter
    def idle_watch(self, idle_watch: IdleWatch) -> None:
        self._session.idle_watch = idle_watch

    @property
    def has_idle(self) -> bool:
        """Whether the session has idle partitions."""
        return len(self._session.active) < len(self._session.partitions)

    def mark_idle(self, key: PartitionKey) -> None:
        """Skip a partition until it is marked as active or named by a request."""
        self._session.active.pop(key, None)

    def mark_active(self, key: PartitionKey) -> None:
        """Read a partition again, with this fetch and the next ones."""
        if key in self._session.partitions:
            self._session.active.setdefault(key)

    def mark_all_active(self) -> None:
        self._session.active.update(dict.fromkeys(self._session.partitions))


Fetch: TypeAlias = FullFetch | IncrementalFetch


def next_epoch(epoch: int) -> int:
    """The epoch after: 0 and -1 have other meanings, so it wraps around to 1."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def _update(
    session: _Session,
    wanted: Mapping[PartitionKey, FetchTarget],
    forgotten: Iterable[PartitionKey],
) -> None:
    partitions, active = session.partitions, session.active
    for key, one in wanted.items():
        active.setdefault(key)
        cached = partitions.get(key)
        if cached is None:
            partitions[key] = _Cached(one)
        else:
            cached.wanted = one
    for key in forgotten:
        partitions.pop(key, None)
        active.pop(key, None)


def _value(session: _Session) -> tuple[bool, int]:
    """The value of a session: followers before consumers, many partitions before few."""
    return (session.follower, len(session.partitions))
