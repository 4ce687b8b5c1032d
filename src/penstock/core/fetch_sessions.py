"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes; answers likewise.

A request says which session it means by an id and by an epoch that grows with every fetch:

    epoch -1                 all partitions are listed; no session, and one that is named is closed
    epoch 0                  likewise, but a new session may be opened for them
    epoch n, id of session   only changes to the session's partitions: wanted, or forgotten

Flow: `FetchSessions.begin` gives a `Fetch`, or an error for the whole request; the caller reads the fetch's
`partitions()` in their order, and when it knows the outcomes, `finish` says which of them go into the answer.

Partitions are keyed by topic id (v13 on) or topic name (before), and number. A partition whose records were
sent goes to the end of its session, so that under `max_bytes` none can starve the others.

A follower's session has all partitions that follow one leader, of which most are quiet. Those can rest: a fetch does
not look at them until they are woken, by whoever hears of it when something happens there, or by being asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from penstock.base.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

# A session that was used, or opened, more recently than this is safe from less valuable ones.
EVICTION_MS_MIN = 120_000

_ID_LIMIT = 2**31 - 1
_EPOCH_MAX = 2**31 - 1
_NOTHING = -1

PartitionKey: TypeAlias = tuple[bytes | str, int]


class FetchTarget(NamedTuple):
    """What a client asks of one partition."""

    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    high_watermark: int | None = None  # the one it knows, if it says so


class PartitionOutcome(NamedTuple):
    """What came of one partition, as far as it decides whether to mention it."""

    high_watermark: int
    log_start_offset: int
    records_size: int = 0
    error: ErrorCode = ErrorCode.NONE
    # Something else the client has to be told: a preferred replica, a diverging epoch.
    notice: bool = False


Outcomes: TypeAlias = Mapping[PartitionKey, PartitionOutcome]


class Answer(NamedTuple):
    """The session part of a fetch response; with an error, nothing else is in it."""

    error: ErrorCode
    session_id: int
    included: list[PartitionKey]


class _Cached:
    """A partition in a session: what is wanted, and what the client was last told."""

    __slots__ = ("high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: FetchTarget) -> None:
        self.wanted = wanted
        self.high_watermark = _NOTHING
        self.log_start_offset = _NOTHING

    def is_news(self, outcome: PartitionOutcome) -> bool:
        return (
            outcome.records_size > 0
            or outcome.high_watermark != self.high_watermark
            or outcome.log_start_offset != self.log_start_offset
            or outcome.error is not ErrorCode.NONE
            or outcome.notice
        )

    def told(self, outcome: PartitionOutcome) -> None:
        # After an error the client is told again as soon as it is over, whatever the offsets are then.
        failed = outcome.error is not ErrorCode.NONE
        self.high_watermark = _NOTHING if failed else outcome.high_watermark
        self.log_start_offset = outcome.log_start_offset


class Watch(Protocol):
    """Whoever hears of it when something happens at the partitions that rest."""

    def end(self) -> None:
        """The session is over."""
        ...


class _Session:
    __slots__ = (
        *("awake", "created_ms", "epoch", "follower", "id", "partitions"),
        *("used_ms", "uses_topic_ids", "watch"),
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
        self.awake: dict[PartitionKey, None] = {}  # those that a fetch looks at, in this order
        self.watch: Watch | None = None


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
        """What a request is to fetch. Requests before version 7 know no sessions: id 0 and epoch -1."""
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
        session.epoch = next_epoch(session.epoch)  # first of all: a fetch that is under way is outdated now
        before = len(session.partitions)
        _update(session, wanted, forgotten)
        self.partition_count += len(session.partitions) - before
        if not session.partitions:
            self._close(session.id)
            return FullFetch({})
        if self.partition_count > self._partitions_max:
            # The client comes back with everything it wants, and is then served without a session.
            self._close(session.id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        return IncrementalFetch(session)

    def _open(self, session: _Session, wanted: Mapping[PartitionKey, FetchTarget], outcomes: Outcomes) -> int:
        """Keep a session for partitions whose outcomes the client is being told, if there is room; its id."""
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
            cached.told(outcome)
            session.awake[key] = None
        self._sessions[session.id] = session
        self.partition_count += size
        return session.id

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._random_below(_ID_LIMIT)
            if session_id not in self._sessions:
                return session_id

    def _evict(self, newcomer: tuple[bool, int], *, now_ms: int) -> bool:
        """Make room for a session of that value: by one long unused, or else by the least valuable one."""
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
        # A follower's session matters more than any consumer's; else the young are left in peace.
        for session in self._sessions.values():
            if now_ms - session.created_ms > self._eviction_ms or (newcomer[0] and not session.follower):
                yield session

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
            if session.watch is not None:
                session.watch.end()


class FullFetch:
    """Everything was listed, and everything is answered."""

    rests = False

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
        """What the client knows of a partition's high watermark, as far as it is known here."""
        return self._wanted[key].high_watermark

    def finish(self, outcomes: Outcomes) -> Answer:
        """Which partitions go into the answer. Call once, when the answer is sent."""
        session_id = NO_SESSION if self._open_session is None else self._open_session(outcomes)
        return Answer(ErrorCode.NONE, session_id, list(outcomes))


class IncrementalFetch:
    """The session's partitions, of which only those with news are answered."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._epoch = session.epoch

    def __len__(self) -> int:
        """How many partitions are looked at. Grows when one is woken."""
        return len(self._session.awake)

    def partitions(self) -> list[tuple[PartitionKey, FetchTarget]]:
        """What to read, in this order: all but those that rest."""
        partitions = self._session.partitions
        return [(key, partitions[key].wanted) for key in self._session.awake]

    def known_high_watermark(self, key: PartitionKey) -> int | None:
        """What the client was last told of a partition's high watermark."""
        cached = self._session.partitions.get(key)
        return None if cached is None else cached.high_watermark

    def finish(self, outcomes: Outcomes) -> Answer:
        """Which partitions go into the answer. Call once, when the answer is sent."""
        session = self._session
        if session.epoch != self._epoch:
            # The client sent its next request before this answer: it has given this one up.
            return Answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, [])
        included = []
        for key, outcome in outcomes.items():
            cached = session.partitions[key]
            if not cached.is_news(outcome):
                continue
            included.append(key)
            cached.told(outcome)
            if outcome.records_size > 0:
                session.awake.pop(key, None)
                session.awake[key] = None
        return Answer(ErrorCode.NONE, session.id, included)

    # Partitions that rest.

    @property
    def watch(self) -> Watch | None:
        """Who watches those that rest, as it was set."""
        return self._session.watch

    @watch.setter
    def watch(self, watch: Watch) -> None:
        self._session.watch = watch

    @property
    def rests(self) -> bool:
        """Whether there are partitions that a fetch does not look at."""
        return len(self._session.awake) < len(self._session.partitions)

    def rest(self, key: PartitionKey) -> None:
        """Do not look at a partition until it is woken or asked for. There is nothing to tell of it."""
        self._session.awake.pop(key, None)

    def wake(self, key: PartitionKey) -> None:
        """Look at a partition again, with this fetch and those that come."""
        if key in self._session.partitions:
            self._session.awake.setdefault(key)

    def wake_all(self) -> None:
        self._session.awake.update(dict.fromkeys(self._session.partitions))


Fetch: TypeAlias = FullFetch | IncrementalFetch


def next_epoch(epoch: int) -> int:
    """The epoch after: 0 and -1 mean something else, so that the numbers start again at 1."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def _update(
    session: _Session,
    wanted: Mapping[PartitionKey, FetchTarget],
    forgotten: Iterable[PartitionKey],
) -> None:
    partitions, awake = session.partitions, session.awake
    for key, one in wanted.items():
        awake.setdefault(key)
        cached = partitions.get(key)
        if cached is None:
            partitions[key] = _Cached(one)
        else:
            cached.wanted = one
    for key in forgotten:
        partitions.pop(key, None)
        awake.pop(key, None)


def _value(session: _Session) -> tuple[bool, int]:
    """Followers before consumers, many partitions before few."""
    return (session.follower, len(session.partitions))
