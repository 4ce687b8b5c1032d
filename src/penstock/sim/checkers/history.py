"""A history: what clients sent and read, with which outcome, and what happened to the logs meanwhile.

Every event carries the numbers at which it began and ended on one counter, so that "before" has a meaning. A
history is plain data: the simulation records one, and so can a test with real processes.
"""

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

from penstock.base.ids import TopicPartition

NO_OFFSET = -1


class LogName(NamedTuple):
    """One partition of one topic; a topic that is deleted and made again is another one."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} ({self.topic_id})"


class OperationOutcome(StrEnum):
    """How an operation ended; UNKNOWN: it may have happened, may happen still, or never."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class CrashKind(Enum):
    """How a node went down, in the order of how much it may lose."""

    STOP = "stop"  # a clean shutdown; topics in memory are lost
    PROCESS = "process"
    MACHINE = "machine"


class SentMessage(NamedTuple):
    """A message to send: `number` is unique in a history, and part of the record."""

    number: int
    key: str | None = None
    tombstone: bool = False


class Seen(NamedTuple):
    """A message as it was read."""

    offset: int
    message: SentMessage


@dataclass(frozen=True, slots=True)
class Send:
    """One batch to one partition, retries included."""

    actor: str
    # Where it may have gone: a retry after the topic was made again goes to another log. The last one answered.
    logs: tuple[LogName, ...]
    messages: tuple[SentMessage, ...]
    began: int
    ended: int
    outcome: OperationOutcome
    acks: int = -1
    base_offset: int = NO_OFFSET
    idempotent: bool = True
    attempts: int = 1
    size_bytes: int = 0
    timestamp_ms: int = 0
    transaction: int | None = None

    @property
    def lies_once(self) -> bool:
        """Whether it cannot be in a log twice."""
        return self.idempotent or self.attempts <= 1


@dataclass(frozen=True, slots=True)
class Poll:
    """One answer to one reader: all there is in [position, next_position), as answered."""

    actor: str
    session: int  # a reader that chooses another position begins a new one
    log: LogName
    position: int
    next_position: int
    seen: tuple[Seen, ...]
    began: int
    ended: int
    high_watermark: int
    log_start: int = 0
    now_ms: int = 0
    committed_only: bool = False


@dataclass(frozen=True, slots=True)
class SeenTransaction:
    """The outcome of a transaction; `ending` is when its end was requested, if it was."""

    number: int
    actor: str
    outcome: OperationOutcome
    ending: int | None = None


class Crash(NamedTuple):
    """A node that has logs went down. `logs`: in a cluster, those whose records no other node had."""

    at: int
    kind: CrashKind
    logs: frozenset[LogName] | None = None

    def concerns(self, log: LogName) -> bool:
        return self.logs is None or log in self.logs


class DamagedLog(NamedTuple):
    """Bytes of a log changed on the device: from here on its tail may be cut at a crash."""

    at: int
    log: LogName


class RecordDeletion(NamedTuple):
    """A DeleteRecords request up to an offset, answered or not."""

    log: LogName
    before_offset: int


class Unreadable(NamedTuple):
    """At the end of the run, no reader could read these offsets: the records there count as lost."""

    log: LogName
    first_offset: int
    next_offset: int


class FinalRead(NamedTuple):
    """At the end of the run, a log was read from its start to its end."""

    log: LogName
    start: int
    end: int
    at: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One request to set a group's offset in a partition, or one transaction that ended with it."""

    group: str
    partition: TopicPartition
    offset: int
    began: int
    ended: int
    outcome: OperationOutcome
    actor: str


@dataclass(frozen=True, slots=True)
class CommittedRead:
    """The committed offset in a response; NO_OFFSET: none."""

    group: str
    partition: TopicPartition
    offset: int
    began: int
    ended: int


@dataclass(frozen=True, slots=True)
class Holding:
    """The assignment of a member in a generation (or at a member epoch) of its group."""

    group: str
    member: str
    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A message that was sent as the copy of another."""

    group: str
    source: int
    copied: int


@dataclass(frozen=True, slots=True)
class Keeping:
    """The retention that a topic promises; None: no limit. For a topic that was changed, see `weaker`."""

    flushes_every_batch: bool = False
    in_memory: bool = False
    compacts: bool = False
    tombstones_ms: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None

    def weaker(self, other: "Keeping") -> "Keeping":
        """The promise of a topic that had both at some time."""
        return Keeping(
            flushes_every_batch=self.flushes_every_batch and other.flushes_every_batch,
            in_memory=self.in_memory or other.in_memory,
            compacts=self.compacts or other.compacts,
            tombstones_ms=_shorter(self.tombstones_ms, other.tombstones_ms),
            retention_ms=_shorter(self.retention_ms, other.retention_ms),
            retention_bytes=_shorter(self.retention_bytes, other.retention_bytes),
        )


def _shorter(one: int | None, other: int | None) -> int | None:
    given = [each for each in (one, other) if each is not None]
    return min(given, default=None)


@dataclass
class History:
    """Everything that was observed."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    transactions: list[SeenTransaction] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    damages: list[DamagedLog] = field(default_factory=list)
    cuts: list[RecordDeletion] = field(default_factory=list)
    final_reads: list[FinalRead] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    committed_reads: list[CommittedRead] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    keeping: dict[str, Keeping] = field(default_factory=dict)  # by topic id
    clock_slack_ms: int = 0  # by how much the clocks involved may have disagreed
    _now: int = 0

    def tick(self) -> int:
        """The next number of the counter that orders everything."""
        self._now += 1
        return self._now

    def promise(self, topic_id: str, keeping: Keeping) -> None:
        """A topic is kept like this from now on, besides how it was kept before."""
        before = self.keeping.get(topic_id)
        self.keeping[topic_id] = keeping if before is None else before.weaker(keeping)

    def crash(self, kind: CrashKind, logs: frozenset[LogName] | None = None) -> None:
        self.crashes.append(Crash(self.tick(), kind, logs))

    def damage(self, log: LogName) -> None:
        self.damages.append(DamagedLog(self.tick(), log))
