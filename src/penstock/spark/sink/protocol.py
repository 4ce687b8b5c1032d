"""What makes a batch count exactly once: pure, without I/O.

Every attempt of a task writes in a transaction of its own and *offers* it. The driver *decides* a batch: one record,
keyed by the query, that names the transactions which count. Then it ends them all, and only then Spark is told. So

    a batch without a decision    counts for nothing: it is written again, and what was offered is aborted
    a batch with a decision       counts: who finds it ends its transactions (that may be repeated), writes nothing

and it does not matter how a repeated batch is cut into tasks. What keeps this true when drivers, tasks and workers
that were given up go on nevertheless:

1.  Decisions of a query are written by one transactional id. A driver takes it over (which shuts out whoever had it),
    then looks at the newest decision, then writes its own: no decision can come in between. Who is shut out begins
    again, and finds the other's decision.
2.  Transactional ids have the run in them (Spark's run id, another one after every restart), the number of the task's
    partition, its attempt, and the batch's parity. So whoever starts a transaction can abort only what its own run
    left behind two batches ago or earlier, which has been ended: a run ends every batch before it begins the next.
    (Tasks of a stage that Spark repeats as a whole begin to count their attempts anew: see 3.)
3.  Right before it decides, the driver asks whether all that is offered is still open, under the same epoch. What a
    timeout has aborted by then is nobody's loss: the batch fails, and is written again.
4.  Transactions of attempts that came to nothing are found in a listing which is taken *between* taking over and
    deciding, and are aborted after that by producer id and epoch, never by taking their id over. A driver that was
    given up may run behind one that has finished this batch and is at the next: so, where the batch was decided
    already, only transactions of this batch's parity are aborted; and none at all where a later batch was decided.
5.  Spark asks to abort a batch also when its commit failed half-way. Then the decision counts, not what Spark asks.
    If there is none, the newest decision is written once more with the name of the run that has given up, before
    anything is aborted: a commit of that run which is alive nevertheless finds it, and decides nothing.
6.  Which decisions have been carried out is remembered beside them. That only saves work, but for one case: a run
    has carried out all its earlier batches, so it never ends their transactions again (their ids may be in use).

Left to the broker: a transaction that was decided and then aborted by a timeout, because nobody came to end it. On
brokers with prepared transactions there is no timeout; elsewhere ending it is refused, and that is an error.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.base.errors import UserError

NO_BATCH: Final = -1
_FORMAT: Final = 1


class Offered(NamedTuple):
    """A transaction: whoever knows this can end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Decision(NamedTuple):
    """These transactions, and no others, are this batch of the query."""

    query: str
    run: str
    batch: int
    transactions: tuple[Offered, ...]
    abandoned: str = ""  # the run that has given up the batch after this one


class Found(NamedTuple):
    """The newest decision of a query, and whether it is known to have been carried out."""

    decision: Decision
    carried_out: bool


class Plan(NamedTuple):
    """What a driver does, in this order: finish an earlier decision, write one, end its transactions, abort others."""

    finish: Decision | None = None
    write: Decision | None = None
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

    def task(self, *, run: str, partition: int, attempt: int, batch: int) -> str:
        return f"{self.prefix}.{self.query}.{run}.{partition}.{attempt}.{batch % 2}"

    def is_task(self, transactional_id: str) -> bool:
        return transactional_id.startswith(f"{self.prefix}.{self.query}.")

    def is_of_run(self, transactional_id: str, run: str) -> bool:
        return transactional_id.startswith(f"{self.prefix}.{self.query}.{run}.")

    def has_parity(self, transactional_id: str, batch: int) -> bool:
        return transactional_id.endswith(f".{batch % 2}")


def is_decided(found: Found | None, batch: int) -> bool:
    """Whether a batch needs nothing written any more."""
    return found is not None and found.decision.batch >= batch


def is_abandoned(found: Found | None, run: str) -> bool:
    """Whether this run has been told to abort, and may decide nothing any more."""
    return found is not None and found.decision.abandoned == run


def on_commit(
    ids: Ids,
    found: Found | None,
    *,
    run: str,
    batch: int,
    offered: Sequence[Offered],
    open_transactions: Iterable[Offered],
) -> Plan:
    """All tasks of a batch have come to their end, and Spark wants it committed.

    `found` and `open_transactions`, those of the query's tasks, were looked up after the decisions were taken over.
    """
    finish = _to_finish(found, run=run, batch=batch)
    if found is not None and found.decision.batch > batch:
        return Plan(finish=finish, abort=_without(offered, found.decision))
    if found is not None and found.decision.batch == batch:
        # Written once more: if that succeeds, nobody has decided anything since the listing was taken.
        left = [each for each in open_transactions if ids.has_parity(each.transactional_id, batch)]
        return Plan(
            write=found.decision,
            commit=() if found.carried_out else found.decision.transactions,
            abort=_without([*offered, *left], found.decision),
        )
    decision = Decision(ids.query, run, batch, tuple(offered))
    others = [] if finish is None else finish.transactions
    left = [each for each in open_transactions if each not in others]
    return Plan(finish, decision, is_new=True, commit=decision.transactions, abort=_without(left, decision))


def on_abort(
    ids: Ids,
    found: Found | None,
    *,
    run: str,
    batch: int,
    offered: Sequence[Offered],
    open_transactions: Iterable[Offered],
) -> Plan:
    """A task failed, or the commit did. What is decided counts nevertheless."""
    finish = _to_finish(found, run=run, batch=batch)
    if found is not None and is_decided(found, batch):
        return Plan(finish=finish, abort=_without(offered, found.decision))
    newest = Decision(ids.query, "", NO_BATCH, ()) if found is None else found.decision
    left = [each for each in open_transactions if ids.is_of_run(each.transactional_id, run)]
    return Plan(finish, newest._replace(abandoned=run), abort=_without([*offered, *left], newest))


def no_longer_open(offered: Iterable[Offered], open_transactions: Iterable[Offered]) -> list[Offered]:
    """Those of the offered transactions that are not open any more, under this epoch."""
    known = set(open_transactions)
    return [each for each in offered if each not in known]


def _to_finish(found: Found | None, *, run: str, batch: int) -> Decision | None:
    if found is None or found.carried_out:
        return None
    decision = found.decision
    return None if decision.run == run and decision.batch != batch else decision


def _without(offered: Iterable[Offered], decision: Decision) -> tuple[Offered, ...]:
    return tuple(dict.fromkeys(each for each in offered if each not in decision.transactions))


class UnreadableDecisionError(UserError):
    """A record among the decisions that is none of ours, or of a newer version."""


def write_decision(decision: Decision) -> bytes:
    """The value of the decision's record; its key is the query."""
    return json.dumps(
        {
            "format": _FORMAT,
            "run": decision.run,
            "batch": decision.batch,
            "transactions": [list(each) for each in decision.transactions],
            "abandoned": decision.abandoned,
        },
        separators=(",", ":"),
    ).encode()


def read_decision(query: str, value: bytes) -> Decision:
    try:
        told = json.loads(value)
        if told["format"] != _FORMAT:
            raise ValueError(f"format {told['format']}")
        transactions = tuple(
            Offered(str(name), int(producer_id), int(epoch))
            for name, producer_id, epoch in told["transactions"]
        )
        return Decision(query, str(told["run"]), int(told["batch"]), transactions, str(told["abandoned"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableDecisionError(
            f"the decision of query {query} cannot be read ({error}): somebody else wrote to the topic, or a newer "
            "version of Penstock did; name another topic with penstock.decisions.topic, or use that version"
        ) from error
