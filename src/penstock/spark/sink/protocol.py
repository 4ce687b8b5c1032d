"""The commit protocol for exactly once: pure, without I/O.

Every attempt of a task writes in its own transaction and *offers* it. The driver *decides* a batch: it writes a record,
keyed by the query, with the transactions to commit. Then it commits them all, and only then reports to Spark. So

    a batch without a decision    is not committed: it is written again, and the offered transactions are aborted
    a batch with a decision       is committed: a repeated batch ends its transactions (again), and writes nothing

and it does not matter how a repeated batch is split into tasks. These rules keep it true while drivers, tasks and
workers that Spark has given up continue to run:

1.  Decisions of a query are written by one transactional id. A driver initializes it (which fences the one before),
    then reads the newest decision, then writes its own: no decision can come in between. A driver that is fenced
    starts over, and finds the other's decision.
2.  Transactional ids have the run in them (Spark's run id, another one after every restart), the number of the task's
    partition, its attempt, and the batch's parity. So starting a transaction can abort only what its own run
    left behind two batches ago or earlier, which has been ended: a run ends every batch before it begins the next.
    (Tasks of a stage that Spark repeats as a whole count their attempts from 0 again: see 3.)
3.  Right before it decides, the driver checks that all offered transactions are still open, with the same epoch. If a
    timeout has aborted one by then, the batch fails, and is written again.
4.  The driver lists the transactions of discarded attempts *between* taking over and deciding, and aborts them after
    that by producer id and epoch, never by initializing their id. An old driver may run after one that has finished
    this batch and is at the next: so, if the batch was decided already, only transactions of this batch's parity are
    aborted; and none at all if a later batch was decided. The next batch finds transactions that begin after the
    listing.
5.  When Spark aborts a batch, its run is *given up*, for good. (Spark also aborts after a commit that failed half-way:
    then the decision stands.) The mark is a transactional id that no task writes with: the run is given up once the
    broker knows it. The driver
        a. sets the mark,
        b. takes over the decisions, reads the newest, and carries it out unless that is done,
        c. lists all transactional ids of the run, with or without an open transaction, and fences them; but not those
           whose transaction was committed: no task writes with them, and another driver may end them again.
    A commit checks the mark after it has taken over the decisions: either that was before b, and then it is fenced or
    its decision is found; or it was after b, so after a, and it finds the mark. A task checks the mark after it has
    initialized its transactional id and before its first record: either that was before the listing of c, and the id is
    fenced; or after it, so after a, and the task finds the mark. So once an abort has returned, no transaction of the
    run is open, and none will be, without knowing the number of tasks or attempts. Decided batches were committed
    before c: in b, or by the run before it began another batch.
6.  Which decisions have been carried out is stored beside them. That only saves work, with one exception: a run has
    carried out all its earlier batches, so it never ends their transactions again (their ids may be in use).

Not covered: a transaction that was decided and then aborted by its timeout, because no driver ended it. Brokers with
prepared transactions have no timeout; on others, ending it is refused, and that is an error.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.base.errors import UserError

_FORMAT: Final = 1
ONGOING: Final = "Ongoing"
# The states of a transactional id in which an attempt may still write with it. Below transaction.version 2 that
# includes the states after an abort by another process.
MAY_WRITE: Final = ("Empty", ONGOING, "PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class Offered(NamedTuple):
    """A transaction that a task offers: what is needed to end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class SinkDecision(NamedTuple):
    """The transactions, and no others, that make up a batch of a query."""

    query: str
    run: str
    batch: int
    transactions: tuple[Offered, ...]


class FoundDecision(NamedTuple):
    """The newest decision of a query, and whether it has been carried out."""

    decision: SinkDecision
    carried_out: bool


class CommitPlan(NamedTuple):
    """The steps of a driver, in order: finish an earlier decision, write one, commit its transactions, abort others."""

    finish: SinkDecision | None = None
    write: SinkDecision | None = None
    is_new: bool = False  # else it was written before
    commit: tuple[Offered, ...] = ()
    abort: tuple[Offered, ...] = ()


class Ids(NamedTuple):
    """A query's transactional ids."""

    prefix: str
    query: str

    @property
    def decisions(self) -> str:
        """The transactional id of the deciding driver, and the group whose offset tells what has been carried out."""
        return f"{self.prefix}.{self.query}"

    def given_up(self, run: str) -> str:
        """The mark of a run that was given up; not an id of its tasks."""
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
    """Whether a batch was decided already, so that nothing is to be written."""
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
    """Plan the commit of a batch whose tasks have all finished.

    `found` and `open_transactions`, those of the query's tasks, were looked up after the decisions were taken over.
    """
    finish = _to_finish(found, run=run, batch=batch)
    if found is not None and found.decision.batch > batch:
        return CommitPlan(finish=finish, abort=_without(offered, found.decision))
    if found is not None and found.decision.batch == batch:
        # Written again: if that succeeds, no other decision was made since the listing.
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
    """Plan an abort: the decision that has to be carried out before the run's transactional ids are fenced."""
    return _to_finish(found, run=run, batch=batch)


def no_longer_open(offered: Iterable[Offered], open_transactions: Iterable[Offered]) -> list[Offered]:
    """The offered transactions that are not open any more with this epoch."""
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
    """A record in the decision topic that is not a decision, or of a newer version."""


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
