"""What makes a batch count exactly once: pure, without I/O.

Every attempt of a task writes in a transaction of its own and *offers* it. The driver *decides* a batch: one record,
keyed by the query, that names the transactions which count. Then it ends them all, and only then reports to Spark. So

    a batch without a decision    counts for nothing: it is written again, and what was offered is aborted
    a batch with a decision       counts: who finds it ends its transactions (that may be repeated), writes nothing

and it does not matter how a repeated batch is cut into tasks. What keeps this true when drivers, tasks and workers
that were given up go on nevertheless:

1.  Decisions of a query are written by one transactional id. A driver initializes it (which fences the one before),
    then looks at the newest decision, then writes its own: no decision can come in between. Who is shut out begins
    again, and finds the other's decision.
2.  Transactional ids have the run in them (Spark's run id, another one after every restart), the number of the task's
    partition, its attempt, and the batch's parity. So starting a transaction can abort only what its own run
    left behind two batches ago or earlier, which has been ended: a run ends every batch before it begins the next.
    (Tasks of a stage that Spark repeats as a whole count their attempts from 0 again: see 3.)
3.  Right before it decides, the driver asks whether all that is offered is still open, under the same epoch. What a
    timeout has aborted by then does no harm: the batch fails, and is written again.
4.  Before it decides, the driver lists the transactions of attempts that came to nothing, *between* taking over and
    deciding, and aborts them after that by producer id and epoch, never by taking their id over. A driver that was
    left behind may run after one that has finished this batch and is at the next: so, where the batch was decided
    already, only transactions of this batch's parity are aborted; and none at all where a later batch was decided.
    What is opened after the listing is found by the next batch's.
5.  When Spark asks to abort a batch, its run is *given up*, for good. (Spark asks also when a commit failed half-way:
    then the decision counts, not what Spark asks.) The mark is a transactional id that no task writes with: the run is
    given up once the broker knows it. The driver
        a. sets the mark,
        b. takes over the decisions, looks at the newest, and carries it out unless that is done,
        c. lists all ids of the run, whether a transaction is open or not, and takes them over; but not those whose
           transaction was committed: nobody writes with them, and somebody may be about to end them once more.
    A commit looks for the mark after it has taken over the decisions: either that was before b, and then it is shut
    out or its decision is found; or it was after b, so after a, and it finds the mark. A task looks for the mark after
    it has started its transactional id and before its first record: either the id was started before the listing of c,
    and is taken over; or after it, so after a, and the task finds the mark. So once an abort has returned nothing of
    the run is open, and nothing will be; no number of tasks or attempts has to be known for it. What has been decided
    was committed before c: in b, or by the run before it began another batch.
6.  Which decisions have been carried out is remembered beside them. That only saves work, but for one case: a run
    has carried out all its earlier batches, so it never ends their transactions again (their ids may be in use).

Left to the broker: a transaction that was decided and then aborted by a timeout, because no driver ended it. On
brokers with prepared transactions there is no timeout; elsewhere ending it is refused, and that is an error.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.base.errors import UserError

_FORMAT: Final = 1
ONGOING: Final = "Ongoing"
# The states of a transactional id, as brokers call them, in which an attempt may yet write with it. Where transactions
# have no epochs of their own, that may be so after an abort by another process.
MAY_WRITE: Final = ("Empty", ONGOING, "PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class Offered(NamedTuple):
    """A transaction: all that is needed to end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class SinkDecision(NamedTuple):
    """These transactions, and no others, are this batch of the query."""

    query: str
    run: str
    batch: int
    transactions: tuple[Offered, ...]


class FoundDecision(NamedTuple):
    """The newest decision of a query, and whether it is known to have been carried out."""

    decision: SinkDecision
    carried_out: bool


class CommitPlan(NamedTuple):
    """What a driver does, in this order: finish an earlier decision, write one, end its transactions, abort others."""

    finish: SinkDecision | None = None
    write: SinkDecision | None = None
    is_new: bool = False  # else it is one that was there before
    commit: tuple[Offered, ...] = ()
    abort: tuple[Offered, ...] = ()


class Ids(NamedTuple):
    """The names of a query's transactional ids."""

    prefix: str
    query: str

    @property
    def decisions(self) -> str:
        """Of the one who decides; also the group whose offset says what has been carried out."""
        return f"{self.prefix}.{self.query}"

    def given_up(self, run: str) -> str:
        """The mark of a run that was given up; not one of its tasks'."""
        return f"{self.prefix}.{self.query}.{run}"

    def task(self, *, run: str, partition: int, attempt: int, batch: int) -> str:
        return f"{self.prefix}.{self.query}.{run}.{partition}.{attempt}.{batch % 2}"

    def is_task(self, transactional_id: str) -> bool:
        return transactional_id.startswith(f"{self.prefix}.{self.query}.")

    def is_of_run(self, transactional_id: str, run: str) -> bool:
        return transactional_id.startswith(f"{self.prefix}.{self.query}.{run}.")

    def has_parity(self, transactional_id: str, batch: int) -> bool:
        return transactional_id.endswith(f".{batch % 2}")


def is_decided(found: FoundDecision | None, batch: int) -> bool:
    """Whether a batch needs nothing written any more."""
    return found is not None and found.decision.batch >= batch


def on_commit(
    ids: Ids,
    found: FoundDecision | None,
    *,
    run: str,
    batch: int,
    offered: Sequence[Offered],
    open_transactions: Iterable[Offered],
) -> CommitPlan:
    """All tasks of a batch have come to their end, and Spark wants it committed.

    `found` and `open_transactions`, those of the query's tasks, were looked up after the decisions were taken over.
    """
    finish = _to_finish(found, run=run, batch=batch)
    if found is not None and found.decision.batch > batch:
        return CommitPlan(finish=finish, abort=_without(offered, found.decision))
    if found is not None and found.decision.batch == batch:
        # Written once more: if that succeeds, no other decision was made since the listing was taken.
        left = [each for each in open_transactions if ids.has_parity(each.transactional_id, batch)]
        return CommitPlan(
            write=found.decision,
            commit=() if found.carried_out else found.decision.transactions,
            abort=_without([*offered, *left], found.decision),
        )
    decision = SinkDecision(ids.query, run, batch, tuple(offered))
    others = [] if finish is None else finish.transactions
    left = [each for each in open_transactions if each not in others]
    return CommitPlan(
        finish, decision, is_new=True, commit=decision.transactions, abort=_without(left, decision)
    )


def on_abort(found: FoundDecision | None, *, run: str, batch: int) -> SinkDecision | None:
    """A task failed, or the commit did: what has to be carried out before the run's transactions are taken over."""
    return _to_finish(found, run=run, batch=batch)


def no_longer_open(offered: Iterable[Offered], open_transactions: Iterable[Offered]) -> list[Offered]:
    """Those of the offered transactions that are not open any more, under this epoch."""
    known = set(open_transactions)
    return [each for each in offered if each not in known]


def _to_finish(found: FoundDecision | None, *, run: str, batch: int) -> SinkDecision | None:
    if found is None or found.carried_out:
        return None
    decision = found.decision
    return None if decision.run == run and decision.batch != batch else decision


def _without(offered: Iterable[Offered], decision: SinkDecision) -> tuple[Offered, ...]:
    return tuple(dict.fromkeys(each for each in offered if each not in decision.transactions))


class UnreadableDecisionError(UserError):
    """A record among the decisions that is none of ours, or of a newer version."""


def write_decision(decision: SinkDecision) -> bytes:
    """The value of the decision's record; its key is the query."""
    return json.dumps(
        {
            "format": _FORMAT,
            "run": decision.run,
            "batch": decision.batch,
            "transactions": [list(each) for each in decision.transactions],
        },
        separators=(",", ":"),
    ).encode()


def read_decision(query: str, value: bytes) -> SinkDecision:
    try:
        told = json.loads(value)
        if told["format"] != _FORMAT:
            raise ValueError(f"format {told['format']}")
        transactions = tuple(
            Offered(str(name), int(producer_id), int(epoch))
            for name, producer_id, epoch in told["transactions"]
        )
        return SinkDecision(query, str(told["run"]), int(told["batch"]), transactions)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableDecisionError(
            f"the decision of query {query} cannot be read ({error}): another program wrote to the topic, or a newer "
            "version of Penstock did; name another topic with penstock.decisions.topic, or use that version"
        ) from error
