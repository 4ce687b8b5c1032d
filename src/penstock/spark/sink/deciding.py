"""The steps of the commit protocol: the driver's at the end of a batch (take over, look up, decide, carry out; or give
up), and a task attempt's at its beginning. `protocol` explains them, a `Ledger` executes them: `ledger` has the one on
a broker, the tests have one in memory.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from penstock.base.errors import PenstockError, Refusal, UserError
from penstock.spark.sink.protocol import (
    CommitPlan,
    FoundDecision,
    Ids,
    Offered,
    SinkDecision,
    no_longer_open,
    on_abort,
    on_commit,
)

log = logging.getLogger("penstock.spark")

_TRIES: Final = 10

Token = TypeVar("Token")
Started = TypeVar("Started")


class ShutOutError(Exception):
    """Another driver has fenced this one, or its transaction timed out: nothing was decided."""


class TransactionGoneError(UserError):
    """A task's transaction ended before its batch was decided; the batch is not committed."""


class GivenUpError(UserError):
    """Spark has aborted a batch of this run: the run must not write or decide any more."""


class LostTransactionError(UserError):
    """The broker aborted a transaction of a decided batch."""


class Ledger(Protocol[Token]):
    """Stores decisions and ends transactions."""

    async def take_over(self) -> Token:
        """Become the driver that decides; the previous one is fenced. Returns a token."""

    async def look_up(self) -> FoundDecision | None:
        """The newest decision."""

    async def open_transactions(self, offered: Sequence[Offered]) -> list[Offered]:
        """The open transactions of the query's tasks and of `offered`."""

    async def write(self, token: Token, decision: SinkDecision) -> None:
        """Write a decision; ShutOutError if another driver has taken over since the token was given."""

    async def end(self, offered: Sequence[Offered], *, committed: bool) -> dict[Offered, Refusal]:
        """Commit or abort transactions; returns those that the broker refused. Repeating the same is not refused."""

    async def mark_carried_out(self, decision: SinkDecision) -> None:
        """Store that all transactions of a decision are ended."""

    async def give_up(self, run: str) -> None:
        """Mark a run as given up."""

    async def is_given_up(self, run: str) -> bool:
        """Whether the run is marked as given up."""

    async def shut_out_tasks(self, run: str) -> None:
        """Fence all of the run's transactional ids that an attempt may still write with: their open transactions are
        aborted, and no new one can begin."""


async def begin_attempt(
    ledger: Ledger[Token], start: Callable[[], Awaitable[Started]], *, run: str
) -> Started:
    """Initialize an attempt's transactional id, and only then check whether its run was given up."""
    started = await start()
    if await ledger.is_given_up(run):
        raise GivenUpError(
            f"nothing is written: Spark has given up run {run}, to which this attempt of a task belongs. If that was a "
            "write inside foreachBatch which is repeated there: let the query fail and start it again, which repeats it"
        )
    return started


async def commit_batch(
    ledger: Ledger[Token],
    ids: Ids,
    *,
    run: str,
    batch: int,
    offered: Sequence[Offered],
    skip_lost_batch: int = -1,
    is_last: bool = False,
) -> None:
    """Commit a batch; returns when consumers can read it. After the `last` batch no later one cleans up after discarded
    attempts, so they are fenced."""
    for _ in range(_TRIES):
        token = await ledger.take_over()
        found = await ledger.look_up()
        open_transactions = await ledger.open_transactions(offered)
        if await ledger.is_given_up(run):
            raise GivenUpError(
                f"batch {batch} of query {ids.query} is not committed: Spark has asked to abort it meanwhile"
            )
        plan = on_commit(
            ids, found, run=run, batch=batch, offered=offered, open_transactions=open_transactions
        )
        if plan.is_new and (gone := no_longer_open(offered, open_transactions)):
            await ledger.end([each for each in offered if each not in gone], committed=False)
            raise TransactionGoneError(_gone(ids, batch, gone))
        if plan.finish is not None:
            await _carry_out(ledger, plan.finish, plan.finish.transactions, skip_lost_batch)
        if plan.write is not None:
            try:
                await ledger.write(token, plan.write)
            except ShutOutError as error:
                log.info(
                    "batch %s of query %s: the decision topic changed meanwhile: %s; reading it again",
                    batch,
                    ids.query,
                    error,
                )
                continue
            await _carry_out(ledger, plan.write, plan.commit, skip_lost_batch)
        await _abort(ledger, plan)
        if is_last:
            await _leave_nothing_open(ledger, run)
        return
    raise UserError(_contended(ids, batch))


async def abort_batch(ledger: Ledger[Token], *, run: str, batch: int, skip_lost_batch: int = -1) -> None:
    """Give up the batch's run and abort its transactions, unless the batch was decided: then commit it."""
    await ledger.give_up(run)
    await ledger.take_over()
    finish = on_abort(await ledger.look_up(), run=run, batch=batch)
    if finish is not None:
        await _carry_out(ledger, finish, finish.transactions, skip_lost_batch)
    await ledger.shut_out_tasks(run)


async def _leave_nothing_open(ledger: Ledger[Token], run: str) -> None:
    """Fence the run's tasks as an abort does; an error is only logged, since the batch is committed."""
    try:
        await ledger.give_up(run)
        await ledger.shut_out_tasks(run)
    except PenstockError as error:
        log.warning("transactions of discarded task attempts may stay open until they time out: %s", error)


async def _carry_out(
    ledger: Ledger[Token], decision: SinkDecision, commit: Sequence[Offered], skip_lost_batch: int
) -> None:
    refused = await ledger.end(commit, committed=True)
    if refused:
        message = _lost(decision, refused)
        if decision.batch != skip_lost_batch:
            raise LostTransactionError(message)
        log.error("penstock.skip.lost.batch=%s: going on. %s", skip_lost_batch, message)
    await ledger.mark_carried_out(decision)


async def _abort(ledger: Ledger[Token], plan: CommitPlan) -> None:
    """Abort transactions; a refused one was ended by another process already."""
    refused = await ledger.end(plan.abort, committed=False)
    for each, refusal in refused.items():
        log.info(
            "transactional id %s: the transaction was already ended (%s)",
            each.transactional_id,
            refusal.code.name,
        )


def _contended(ids: Ids, batch: int) -> str:
    return (
        f"batch {batch} of query {ids.query} could not be decided: another driver took over {_TRIES} times. "
        "Does the same query run twice, with one checkpoint?"
    )


def _gone(ids: Ids, batch: int, gone: Sequence[Offered]) -> str:
    return (
        f"batch {batch} of query {ids.query} cannot be committed: {len(gone)} of its transactions are not open any "
        f"more ({_names(gone)}). A broker aborts a transaction after kafka.transaction.timeout.ms, or an operator did. "
        "Nothing of the batch counts, and nothing is lost: it is written again when the query is started again. "
        "If it was the timeout, give it more"
    )


def _lost(decision: SinkDecision, refused: dict[Offered, Refusal]) -> str:
    codes = ", ".join(sorted({refusal.code.name for refusal in refused.values()}))
    return (
        f"rows of batch {decision.batch} of query {decision.query} are lost: the batch was decided, and before all of "
        f"its {len(decision.transactions)} transactions were ended the broker aborted {len(refused)} of them "
        f"({_names(list(refused))}: {codes}), which it does unless they end within kafka.transaction.timeout.ms. "
        f"The rows of the others are there. Produce the missing rows by other means, then go on with "
        f'.option("penstock.skip.lost.batch", "{decision.batch}"); a broker with prepared transactions '
        "(transaction.two.phase.commit.enable) has no such timeout"
    )


def _names(transactions: Sequence[Offered]) -> str:
    shown = [
        f"{each.transactional_id}, producer {each.producer_id}, epoch {each.producer_epoch}"
        for each in transactions[:3]
    ]
    return "; ".join([*shown, *(["..."] if len(transactions) > len(shown) else [])])
