"""What a coordinator of any kind decides, and how the runtime drives it: decide, write, replay, answer.

A coordinator looks after one partition of an internal topic. Its state there is a *shard*: all groups, or all
transactional ids, whose hash leads to that partition. A request is a method of the shard that looks at the state
and returns a `Decision`: records to be written and the response. It changes nothing durable: the runtime (in
`services.coordinators`) appends the records in one batch, hands them to `replay` at once, and gives the response
when the high watermark has passed them. A new leader replays the same log and so has the same state; there is no
other code for fail-over. What lies beside the durable state (who heartbeat when, who waits for an answer) may be
changed by requests, and is lost at fail-over.

Words:

    Decision   what is to be written and answered
    Refusal    the answer is an error (`base.errors`)
    Pending    the answer is given later: the request waits until another decision `completes` it
    work       a computation too long for one go: a generator that yields at least every few milliseconds of
               work and returns a decision. State may change at every yield: it looks again afterwards.

Time comes in as `now_ms`: wall-clock milliseconds that never jump (steady since the shard was loaded).
"""

from collections.abc import Generator, Iterable
from functools import lru_cache
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from penstock.base.errors import ErrorCode, Refusal
from penstock.records.internal.record import InternalRecord

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_UTF16_UNIT: Final = Struct(">H")
_PARTITIONS_REMEMBERED: Final = 1_000  # of keys of up to 32 KiB, though hardly any is that long


class BatchProducer(NamedTuple):
    """Who writes as a part of a transaction."""

    id: int
    epoch: int


class Pending(Generic[R_co]):
    """Stands for an answer that a later decision gives; each is itself and no other."""


class Completion(NamedTuple):
    """The answer to a request that waits."""

    pending: Pending[Any]
    response: Any


class Decision(NamedTuple, Generic[R_co]):
    """What a request, a timer or a piece of work came to.

    The records are in one batch, perhaps with those of others: all of them are in the log, or none. Responses and
    completions are given once the high watermark has passed them; without records, once it has passed all that was
    replayed before.
    """

    response: R_co | Refusal | Pending[R_co]
    records: tuple[InternalRecord, ...] = ()
    completes: tuple[Completion, ...] = ()  # may contain this decision's own `Pending`
    work: "Work | None" = None  # begun after the records have been replayed; nobody waits for it
    # What others have to do once the records are safe (such as: write these markers). Handed to the coordinator's
    # listener; lost at fail-over, so `expire` must ask for it again if the state says that it is still to be done.
    effects: tuple[Any, ...] = ()
    producer: BatchProducer | None = None  # the records are a part of this producer's transaction

    @classmethod
    def refused(cls, code: ErrorCode, message: str | None = None) -> "Decision[R_co]":
        return cls(Refusal(code, message))


# Driven by the runtime a few milliseconds at a time; the decision it returns is carried out like any other. Lost at
# fail-over: `expire` must ask for it again if the state says that it is still to be done.
Work: TypeAlias = Generator[None, None, "Decision[None] | None"]

# What a request may return: a decision, or an answer too long for one go (a listing of 100,000 ids).
Answer: TypeAlias = Decision[R] | Generator[None, None, Decision[R]]


@lru_cache(maxsize=_PARTITIONS_REMEMBERED)
def partition_for(key: str, partition_count: int) -> int:
    """Which partition of the internal topic looks after a group or transactional id: Java's hash of a string."""
    hashed = 0
    for (unit,) in _UTF16_UNIT.iter_unpack(key.encode("utf-16-be", "surrogatepass")):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    # Kafka takes the absolute value of the signed number, and 0 for the one that has none.
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count


class Shard(Protocol):
    """A coordinator's state in one partition of its internal topic. Requests are further methods, of the form
    `method(request, now_ms) -> Answer`."""

    def replay(self, record: InternalRecord, *, offset: int, producer: BatchProducer | None = None) -> None:
        """Take over what is in the log, whoever wrote it. Only this and `replay_marker` change durable state.

        With a `producer`, the record counts once that producer's transaction is committed.
        """
        ...

    def replay_marker(self, producer: BatchProducer, *, committed: bool, offset: int) -> None:
        """The producer's transaction ended here."""
        ...

    def loaded(self, now_ms: int) -> None:
        """The whole log has been replayed: set up what is not durable, with full timeouts for everyone."""
        ...

    def deadline(self) -> int | None:
        """When `expire` has something to do next, in the time of `now_ms`; None if nothing is due ever."""
        ...

    def expire(self, now_ms: int) -> Iterable[Decision[None]]:
        """What became due. Each decision is replayed before the next is asked for, so this may be a generator."""
        ...
