"""How a coordinator decides, and how the runtime carries its decisions out: decide, append, replay, answer.

The group coordinator and the transaction coordinator keep their state per partition of an internal topic. The state of
one partition is a *shard*: all groups, or all transactional ids, whose hash gives that partition. A request is a method
of the shard that reads the state and returns a `Decision`: records to append, and the response. It changes no durable
state. The runtime (`services.coordinators`) appends the records in one batch, passes them to `replay` at once, and
gives the response when the high watermark has passed them. A new leader replays the same log and gets the same state;
there is no other code for fail-over. State that is not durable (sessions, waiting requests) may be changed by requests,
and is lost at fail-over.

Words:

    Decision    the records to append, and the response
    Refusal     the response is an error (`base.errors`)
    Pending     the response comes later: the request waits until another decision `completes` it
    Completion  the response to a request that waits
    work        a computation too long for one turn of the loop: a generator that yields at least every few
                milliseconds and returns a decision. State may change at every yield: it reads the state again after it.
    carry out   append the records of a decision, replay them, and answer when they are committed

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
    """The producer id and epoch of a transactional batch."""

    id: int
    epoch: int


class Pending(Generic[R_co]):
    """Stands for the response that a later decision gives to a waiting request; compared by identity."""


class Completion(NamedTuple):
    """The response to a request that waits."""

    pending: Pending[Any]
    response: Any


class Decision(NamedTuple, Generic[R_co]):
    """The outcome of a request, a timer or a piece of work.

    All records are in one batch, perhaps with those of other decisions: the log has all of them or none. Responses and
    completions are given once the high watermark has passed the records; without records, once it has passed all
    records replayed before.
    """

    response: R_co | Refusal | Pending[R_co]
    records: tuple[InternalRecord, ...] = ()
    completes: tuple[Completion, ...] = ()  # may contain this decision's own `Pending`
    work: "Work | None" = None  # started after the records have been replayed; no request waits for it
    # What is to be done outside the shard once the records are committed (write transaction markers). Passed to
    # `Coordinator.on_effect`; lost at fail-over, so `expire` must ask for it again if the state says that it is due.
    effects: tuple[Any, ...] = ()
    producer: BatchProducer | None = None  # the records are a part of this producer's transaction

    @classmethod
    def refused(cls, code: ErrorCode, message: str | None = None) -> "Decision[R_co]":
        return cls(Refusal(code, message))


# Run by the runtime a few milliseconds at a time; the decision it returns is carried out like any other. Lost at
# fail-over: `expire` must ask for it again if the state says that it is due.
Work: TypeAlias = Generator[None, None, "Decision[None] | None"]

# What a request may return: a decision, or a generator if it takes too long for one turn (a listing of 100,000 ids).
Answer: TypeAlias = Decision[R] | Generator[None, None, Decision[R]]


@lru_cache(maxsize=_PARTITIONS_REMEMBERED)
def partition_for(key: str, partition_count: int) -> int:
    """The partition of the internal topic for a group or transactional id: Java's hash of the string."""
    hashed = 0
    for (unit,) in _UTF16_UNIT.iter_unpack(key.encode("utf-16-be", "surrogatepass")):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    # Kafka takes the absolute value of the signed number, and 0 for the one that has none.
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count


class Shard(Protocol):
    """A coordinator's state in one partition of its internal topic. Requests are further methods:
    `method(request, now_ms) -> Answer`."""

    def replay(self, record: InternalRecord, *, offset: int, producer: BatchProducer | None = None) -> None:
        """Apply a record of the log. Only this and `replay_marker` change durable state.

        With a `producer`, the record takes effect when that producer's transaction is committed.
        """
        ...

    def replay_marker(self, producer: BatchProducer, *, committed: bool, offset: int) -> None:
        """Apply a transaction marker of the log."""
        ...

    def loaded(self, now_ms: int) -> None:
        """The whole log has been replayed: set up the state that is not durable, with full timeouts."""
        ...

    def deadline(self) -> int | None:
        """When `expire` has to be called next, in the time of `now_ms`; None if there is no deadline."""
        ...

    def expire(self, now_ms: int) -> Iterable[Decision[None]]:
        """The decisions for what became due. Each is carried out before the next is taken: this may be a generator."""
        ...
