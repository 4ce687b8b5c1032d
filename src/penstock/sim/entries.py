"""The entries of a plan: operations of clients and faults, each with a time, as plain data, to JSON and back.

An operation is its actor's: one actor does its operations one after the other, so a moment is when one begins at the
earliest. A fault strikes at its moment, whatever is going on.
"""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a plan; `at_ms` is virtual time."""

    kind: ClassVar[str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Operation(Entry):
    """Something that a client does."""

    actor: str


@dataclass(frozen=True, slots=True)
class SendBatch(Operation):
    """A batch to one partition; a key of "" is no key, a key in `tombstones` is sent without a value."""

    kind: ClassVar[str] = "send"
    topic: str
    partition: int
    keys: tuple[str, ...]
    tombstones: tuple[int, ...] = ()  # indexes into `keys`
    value_bytes: int = 20
    codec: str = "NONE"


@dataclass(frozen=True, slots=True)
class ReadOn(Operation):
    """One fetch from where the reader stands in a partition."""

    kind: ClassVar[str] = "read"
    topic: str
    partition: int
    bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Seek(Operation):
    """The reader goes to the start of a partition, or to its end."""

    kind: ClassVar[str] = "seek"
    topic: str
    partition: int
    to_end: bool = False


@dataclass(frozen=True, slots=True)
class CreateTopic(Operation):
    kind: ClassVar[str] = "create"
    topic: str


@dataclass(frozen=True, slots=True)
class DeleteTopic(Operation):
    kind: ClassVar[str] = "delete"
    topic: str


@dataclass(frozen=True, slots=True)
class RecreateTopic(Operation):
    """Delete a topic and make one of the same name, at once."""

    kind: ClassVar[str] = "recreate"
    topic: str


@dataclass(frozen=True, slots=True)
class AlterTopic(Operation):
    """Set one config of a topic."""

    kind: ClassVar[str] = "alter"
    topic: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DeleteRecords(Operation):
    """Cut a partition off at a share of what the actor last knew of it."""

    kind: ClassVar[str] = "delete-records"
    topic: str
    partition: int
    percent: int


@dataclass(frozen=True, slots=True)
class CoordinatedOperation(Operation):
    """What needs a coordinator: only plans of groups and transactions have these."""


@dataclass(frozen=True, slots=True)
class JoinGroup(CoordinatedOperation):
    """A member begins to read, and goes on until it leaves; it commits after every `commit_every` answers."""

    kind: ClassVar[str] = "join"
    commit_every: int


@dataclass(frozen=True, slots=True)
class LeaveGroup(CoordinatedOperation):
    """A member stops, with LeaveGroup or without."""

    kind: ClassVar[str] = "leave"
    says_so: bool


@dataclass(frozen=True, slots=True)
class Transact(CoordinatedOperation):
    """One transaction: a batch to each of these partitions, and its end."""

    kind: ClassVar[str] = "transact"
    topics: tuple[str, ...]
    partitions: tuple[int, ...]  # one for each topic
    count: int  # of messages, in each
    pause_ms: int  # before the end
    commits: bool


@dataclass(frozen=True, slots=True)
class ClusterOperation(Operation):
    """What only plans of clusters have."""


@dataclass(frozen=True, slots=True)
class GrowTopic(ClusterOperation):
    """Ask for so many partitions more than the plan has; no producer writes to them."""

    kind: ClassVar[str] = "grow"
    topic: str
    by: int


@dataclass(frozen=True, slots=True)
class MoveReplicas(ClusterOperation):
    """Reassign a partition; without replicas: cancel its reassignment."""

    kind: ClassVar[str] = "move"
    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElectPreferred(ClusterOperation):
    """Have the first replica of a partition lead."""

    kind: ClassVar[str] = "elect"
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class DrainBroker(ClusterOperation):
    """Have a broker emptied, from now on."""

    kind: ClassVar[str] = "drain"
    broker: int


@dataclass(frozen=True, slots=True)
class UndrainBroker(ClusterOperation):
    """Give a broker its share again."""

    kind: ClassVar[str] = "undrain"
    broker: int


@dataclass(frozen=True, slots=True)
class Fault(Entry):
    """A fault of a node; with `when`, injected when the node enters that phase, or after a while."""

    when: str | None = field(default=None, kw_only=True)
    node: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class CrashProcess(Fault):
    """The broker is killed, at the moment or in the middle of its next changes on disk, and started again."""

    kind: ClassVar[str] = "crash-process"
    down_ms: int
    after_changes: int | None = None


@dataclass(frozen=True, slots=True)
class CrashMachine(Fault):
    """The machine loses power, at the moment or in the middle of its next changes on disk, and is started again."""

    kind: ClassVar[str] = "crash-machine"
    down_ms: int
    after_changes: int | None = None


@dataclass(frozen=True, slots=True)
class Restart(Fault):
    """The broker is stopped as it should be, and started again."""

    kind: ClassVar[str] = "restart"
    down_ms: int


@dataclass(frozen=True, slots=True)
class CutNetwork(Fault):
    """A client and the broker cannot reach each other for a while; connections stay open."""

    kind: ClassVar[str] = "cut"
    actor: str
    for_ms: int


@dataclass(frozen=True, slots=True)
class DelayNetwork(Fault):
    """What a client and the broker send to each other takes longer."""

    kind: ClassVar[str] = "delay"
    actor: str
    delay_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True)
class SlowNetwork(Fault):
    """The link between a client and the broker carries few bytes a second."""

    kind: ClassVar[str] = "slow"
    actor: str
    bytes_per_s: int
    for_ms: int


@dataclass(frozen=True, slots=True)
class ResetConnections(Fault):
    """A client's connections break; both sides see it."""

    kind: ClassVar[str] = "reset"
    actor: str


@dataclass(frozen=True, slots=True)
class HalfOpenConnections(Fault):
    """A client's connections break, and only the client sees it."""

    kind: ClassVar[str] = "half-open"
    actor: str


@dataclass(frozen=True, slots=True)
class FillDisk(Fault):
    kind: ClassVar[str] = "disk-full"
    for_ms: int


@dataclass(frozen=True, slots=True)
class FailAppend(Fault):
    """The next write fails with an I/O error."""

    kind: ClassVar[str] = "append-error"


@dataclass(frozen=True, slots=True)
class FailSync(Fault):
    kind: ClassVar[str] = "sync-error"


@dataclass(frozen=True, slots=True)
class SlowSyncs(Fault):
    kind: ClassVar[str] = "slow-sync"
    delay_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True)
class ColdCache(Fault):
    """Nothing is in the page cache: every read waits for the device."""

    kind: ClassVar[str] = "cold-cache"
    for_ms: int


@dataclass(frozen=True, slots=True)
class FlipBit(Fault):
    """A bit of a file changes on the device."""

    kind: ClassVar[str] = "bit-flip"
    suffix: str


@dataclass(frozen=True, slots=True)
class JumpClock(Fault):
    """The broker's date is set forward or back."""

    kind: ClassVar[str] = "clock-jump"
    by_ms: int


@dataclass(frozen=True, slots=True)
class SkewClock(Fault):
    """The broker's clocks run fast or slow from now on."""

    kind: ClassVar[str] = "clock-skew"
    percent: int


@dataclass(frozen=True, slots=True)
class CopyForeignDirectory(Fault):
    """A directory is copied into the broker's data directory, if none has its name: with photos in it, or a
    partition of another cluster.
    """

    kind: ClassVar[str] = "copy-foreign"
    name: str
    is_partition: bool


@dataclass(frozen=True, slots=True)
class StartWithoutMetadata(Fault):
    """The broker is killed and started without its metadata: they were lost, or ZooKeeper was not configured.
    After it has refused it is started as it should be.
    """

    kind: ClassVar[str] = "without-metadata"
    down_ms: int


@dataclass(frozen=True, slots=True)
class ClusterFault(Fault):
    """A fault of one of several nodes: only plans of clusters have these."""


@dataclass(frozen=True, slots=True)
class CrashSilently(ClusterFault):
    """The broker is killed without closing its connections; its disk keeps what was written."""

    kind: ClassVar[str] = "crash-silently"
    down_ms: int


@dataclass(frozen=True, slots=True)
class PauseNode(ClusterFault):
    """The broker is paused and resumed, as by SIGSTOP and SIGCONT."""

    kind: ClassVar[str] = "pause"
    for_ms: int


@dataclass(frozen=True, slots=True)
class CutPeers(ClusterFault):
    """Two brokers cannot reach each other for a while, or the one cannot reach the other."""

    kind: ClassVar[str] = "cut-peers"
    other: int
    for_ms: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class IsolateNode(ClusterFault):
    """A broker reaches no other, no client, and not the metadata store."""

    kind: ClassVar[str] = "isolate"
    for_ms: int


@dataclass(frozen=True, slots=True)
class CutStore(ClusterFault):
    """A broker does not reach the metadata store; silently: it finds out because no answer comes."""

    kind: ClassVar[str] = "cut-store"
    for_ms: int
    silently: bool


@dataclass(frozen=True, slots=True)
class ExpireSession(ClusterFault):
    """The metadata store ends a broker's session."""

    kind: ClassVar[str] = "expire-session"


def _concrete(parent: type[Entry]) -> list[type[Entry]]:
    """The kinds below `parent`, in the order in which they are written above."""
    return [each for each in globals().values() if _is_concrete(each, parent)]


def _is_concrete(each: object, parent: type[Entry]) -> bool:
    return isinstance(each, type) and issubclass(each, parent) and "kind" in vars(each)


COORDINATED = {each.kind: each for each in _concrete(CoordinatedOperation)}
CLUSTERED = {
    each.kind: each for each in _concrete(Entry) if issubclass(each, ClusterOperation | ClusterFault)
}
_ELSEWHERE = {**COORDINATED, **CLUSTERED}
OPERATIONS = {each.kind: each for each in _concrete(Operation) if each.kind not in _ELSEWHERE}
FAULTS = {each.kind: each for each in _concrete(Fault) if each.kind not in _ELSEWHERE}
_KINDS: dict[str, type[Entry]] = {**OPERATIONS, **FAULTS, **_ELSEWHERE}


def to_json(entry: Entry) -> dict[str, Any]:
    return {"kind": entry.kind, **asdict(entry)}


def from_json(data: dict[str, Any]) -> Entry:
    """The reverse; ValueError for what is no entry."""
    known: Any = _KINDS.get(data.get("kind", ""))
    if known is None:
        raise ValueError(f"no entry is called {data.get('kind')!r}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    del values["kind"]
    expected = [each.name for each in fields(known)]
    missing = [name for name in expected if name not in values]
    strange = [name for name in values if name not in expected]
    if missing or strange:
        raise ValueError(f"a {known.kind} entry with wrong fields: {', '.join(missing + strange)}")
    entry: Entry = known(**values)
    return entry


def describe(entry: Entry) -> str:
    """One line for people."""
    facts = ", ".join(
        f"{each.name}={getattr(entry, each.name)!r}"
        for each in fields(entry)
        if each.name not in ("at_ms", "actor") and getattr(entry, each.name) not in ((), None)
    )
    actor = getattr(entry, "actor", "")
    return f"{entry.at_ms / 1000:8.3f} s  {entry.kind:<14} {actor:<10} {facts}".rstrip()
