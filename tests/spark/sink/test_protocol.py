"""What makes a batch count exactly once, without a broker: the rules one by one, and then drivers, tasks and workers
in any order, killed anywhere or given up and alive nevertheless."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import ErrorCode, Refusal, UserError
from penstock.spark.sink import deciding
from penstock.spark.sink.deciding import (
    GivenUpError,
    LostTransactionError,
    ShutOutError,
    TransactionGoneError,
    commit_batch,
)
from penstock.spark.sink.protocol import (
    MAY_WRITE,
    FoundDecision,
    Ids,
    Offered,
    SinkDecision,
    UnreadableDecisionError,
    is_decided,
    on_abort,
    on_commit,
    read_decision,
    write_decision,
)

IDS = Ids("p", "query")


def offered(number: int, *, run: str = "run", batch: int = 1) -> Offered:
    return Offered(IDS.task(run=run, partition=number, attempt=0, batch=batch), number, 0)


def decision(*transactions: Offered, run: str = "run", batch: int = 1) -> SinkDecision:
    return SinkDecision(IDS.query, run, batch, transactions)


# The rules one by one.


def test_a_batch_without_a_decision_gets_one_and_what_was_not_offered_is_aborted():
    plan = on_commit(
        IDS, None, run="run", batch=1, offered=[offered(0)], open_transactions=[offered(0), offered(1)]
    )
    assert plan.write == decision(offered(0))
    assert plan.is_new
    assert plan.commit == (offered(0),)
    assert plan.abort == (offered(1),)


def test_a_batch_that_was_decided_is_finished_and_what_is_offered_for_it_again_is_aborted():
    before = decision(offered(0, run="old"), run="old")
    plan = on_commit(
        IDS, FoundDecision(before, False), run="run", batch=1, offered=[offered(0)], open_transactions=[]
    )
    assert plan.write == before
    assert not plan.is_new
    assert plan.commit == before.transactions
    assert plan.abort == (offered(0),)


def test_a_batch_that_was_decided_and_carried_out_is_not_ended_again():
    before = decision(offered(0, run="old"), run="old")
    plan = on_commit(IDS, FoundDecision(before, True), run="run", batch=1, offered=[], open_transactions=[])
    assert plan.commit == ()


def test_a_driver_that_runs_behind_does_not_touch_the_transactions_of_the_next_batch():
    before = decision(offered(0, run="new"), run="new")
    theirs = offered(0, run="new", batch=2)
    plan = on_commit(
        IDS, FoundDecision(before, True), run="run", batch=1, offered=[offered(0)], open_transactions=[theirs]
    )
    assert plan.abort == (offered(0),)
    later = decision(offered(0, run="new", batch=2), run="new", batch=2)
    plan = on_commit(
        IDS, FoundDecision(later, False), run="run", batch=1, offered=[offered(0)], open_transactions=[theirs]
    )
    assert plan.write is None
    assert plan.abort == (offered(0),)


def test_a_run_does_not_end_the_transactions_of_its_own_earlier_batches_again():
    before = decision(offered(0), batch=1)
    plan = on_commit(
        IDS,
        FoundDecision(before, False),
        run="run",
        batch=2,
        offered=[offered(0, batch=2)],
        open_transactions=[],
    )
    assert plan.finish is None
    plan = on_commit(
        IDS,
        FoundDecision(before, False),
        run="new",
        batch=2,
        offered=[offered(0, batch=2)],
        open_transactions=[],
    )
    assert plan.finish == before


def test_what_is_decided_is_carried_out_when_spark_asks_to_abort_it():
    before = decision(offered(0))
    assert on_abort(FoundDecision(before, False), run="run", batch=1) == before
    assert on_abort(FoundDecision(before, True), run="run", batch=1) is None
    assert on_abort(FoundDecision(before, False), run="another", batch=2) == before
    assert on_abort(None, run="run", batch=1) is None


def test_the_mark_of_a_run_is_not_one_of_its_tasks_nor_of_another_runs():
    assert not IDS.is_of_run(IDS.given_up("run"), "run")
    assert IDS.is_of_run(offered(0).transactional_id, "run")
    assert not IDS.is_of_run(offered(0, run="run2").transactional_id, "run")


def test_a_decision_can_be_read_back_and_nonsense_is_said_to_be_nonsense():
    before = decision(offered(0), offered(7))
    assert read_decision(IDS.query, write_decision(before)) == before
    for nonsense in (b"", b"{}", b'{"format":2}', b"\xff", b"[]", b'{"format":1,"run":"r","batch":1}'):
        with pytest.raises(UnreadableDecisionError, match=r"penstock\.decisions\.topic"):
            read_decision(IDS.query, nonsense)


# All of it, in any order.


class _Turn:
    """Where another process may go on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass
class _Transaction:
    producer_id: int
    epoch: int = -1
    is_open: bool = False
    ended: tuple[int, bool] | None = None  # the epoch of the newest one that was ended, and whether committed
    rows: list[Any] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.is_open:
            return "Ongoing"
        if self.ended is None:
            return "Empty"
        return "CompleteCommit" if self.ended[1] else "CompleteAbort"


class Broker:
    """Transactions and decisions as a broker has them; every request is one step.

    `own_epochs`: whether every transaction has an epoch of its own (transaction.version 2). Elsewhere an attempt whose
    transaction was aborted with its own epoch can begin another one.
    """

    def __init__(self, *, own_epochs: bool = True) -> None:
        self.transactions: dict[str, _Transaction] = {}
        self.committed: list[Any] = []
        self.decisions: list[SinkDecision] = []
        self.carried_out = 0
        self.holder = 0
        self.listed: set[Offered] = set()  # by the driver that may decide next
        self.given_up: set[str] = set()
        self.left_open: list[str] = []  # after a driver said that no transaction of the run is open
        self._own_epochs = own_epochs
        self._closed: set[str] = set()

    def start(self, transactional_id: str) -> Offered:
        known = self.transactions.setdefault(transactional_id, _Transaction(len(self.transactions)))
        if known.is_open:
            self._end(known, committed=False)
        known.epoch += 1
        known.ended = None
        return Offered(transactional_id, known.producer_id, known.epoch)

    def write(self, to: Offered, rows: Sequence[Any]) -> bool:
        known = self.transactions[to.transactional_id]
        if known.epoch != to.producer_epoch:
            return False
        known.is_open = True
        known.rows += rows
        if _run_of(to.transactional_id) in self._closed:
            self.left_open.append(to.transactional_id)
        return True

    def end(self, which: Offered, *, committed: bool) -> Refusal | None:
        known = self.transactions[which.transactional_id]
        if known.epoch == which.producer_epoch and known.is_open:
            self._end(known, committed=committed)
            return None
        if known.ended == (which.producer_epoch, committed):
            return None
        return Refusal(ErrorCode.INVALID_TXN_STATE)

    def close(self, run: str) -> None:
        """A driver says that nothing of the run is open, and that nothing will be."""
        self._closed.add(run)
        self.left_open += [
            name for name, known in self.transactions.items() if known.is_open and _run_of(name) == run
        ]

    def time_out(self, chance: random.Random) -> None:
        """Abort an open transaction that is neither decided nor about to be; other tests time out decided ones."""
        decided = {each for decision in self.decisions for each in decision.transactions} | self.listed
        undecided = [
            known
            for name, known in self.transactions.items()
            if known.is_open and Offered(name, known.producer_id, known.epoch) not in decided
        ]
        if undecided:
            known = chance.choice(undecided)
            self._end(known, committed=False)
            known.epoch += 1  # the attempt that had it is fenced, in any version

    def _end(self, known: _Transaction, *, committed: bool) -> None:
        if committed:
            self.committed += known.rows
        known.rows, known.is_open, known.ended = [], False, (known.epoch, committed)
        if self._own_epochs:
            known.epoch += 1


def _run_of(transactional_id: str) -> str:
    return transactional_id.split(".")[2]


class MemoryLedger:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._offset = -1

    async def take_over(self) -> int:
        await _Turn()
        self._broker.holder += 1
        self._broker.listed.clear()
        return self._broker.holder

    async def look_up(self) -> FoundDecision | None:
        await _Turn()
        self._offset = len(self._broker.decisions) - 1
        if self._offset < 0:
            return None
        return FoundDecision(self._broker.decisions[-1], self._offset < self._broker.carried_out)

    async def open_transactions(self, offered: Sequence[Offered]) -> list[Offered]:
        await _Turn()
        found = [
            Offered(name, known.producer_id, known.epoch)
            for name, known in self._broker.transactions.items()
            if known.is_open
        ]
        self._broker.listed.update(found)
        return found

    async def write(self, token: int, decision: SinkDecision) -> None:
        await _Turn()
        if token != self._broker.holder:
            raise ShutOutError
        self._offset = len(self._broker.decisions)
        self._broker.decisions.append(decision)

    async def end(self, offered: Sequence[Offered], *, committed: bool) -> dict[Offered, Refusal]:
        refused = {}
        for each in offered:
            await _Turn()
            if refusal := self._broker.end(each, committed=committed):
                refused[each] = refusal
        return refused

    async def mark_carried_out(self, decision: SinkDecision) -> None:
        await _Turn()
        self._broker.carried_out = self._offset + 1

    async def give_up(self, run: str) -> None:
        await _Turn()
        self._broker.given_up.add(run)

    async def is_given_up(self, run: str) -> bool:
        await _Turn()
        return run in self._broker.given_up

    async def shut_out_tasks(self, run: str) -> None:
        await self._take_over_tasks(run, lambda known: known.state in MAY_WRITE)

    async def _take_over_tasks(self, run: str, wanted: Callable[[_Transaction], bool]) -> None:
        await _Turn()
        known = self._broker.transactions.items()
        for name in [name for name, each in known if IDS.is_of_run(name, run) and wanted(each)]:
            await _Turn()
            self._broker.start(name)


class Process:
    """Something that Spark started: goes on step by step, until it is done or killed."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, born: int) -> None:
        self._coroutine = coroutine
        self.born = born  # in which batch
        self.done = False
        self.result: Any = None
        self.problem: Exception | None = None

    def step(self) -> None:
        try:
            self._coroutine.send(None)
        except StopIteration as stop:
            self.done, self.result = True, stop.value
        except UserError as problem:  # what a driver says when it fails
            self.done, self.problem = True, problem

    def kill(self) -> None:
        self._coroutine.close()
        self.done = True


class Story:
    """A query's life: runs that are killed at any step, what they leave alive, and a last run that is left in peace."""

    def __init__(self, chance: random.Random, *, batches: int, kills: int) -> None:
        self.chance = chance
        self.broker = Broker(own_epochs=chance.random() < 0.7)
        self.rows = {batch: [(batch, row) for row in range(4)] for batch in range(batches)}
        self.kills = kills
        self.finished = -1  # Spark's own checkpoint
        self.living: list[Process] = []

    def tell(self) -> None:
        number = 0
        while self.finished < len(self.rows) - 1:
            number += 1
            assert number < 50, "it comes to no end"
            self._run(f"run{number}")
        while self.living:
            self._step_one_process()

    def is_exactly_once(self) -> bool:
        """Every row counts once, and nothing was open where a driver had said so."""
        rows = Counter(row for rows in self.rows.values() for row in rows)
        return Counter(self.broker.committed) == rows and not self.broker.left_open

    def _run(self, run: str) -> None:
        while self.finished < len(self.rows) - 1:
            batch = self.finished + 1
            # Who was given up two batches ago is gone by now; what it could do otherwise is said in `protocol`.
            for process in [each for each in self.living if each.born < batch - 1]:
                process.kill()
            messages = self._tasks(run, batch)
            if messages is None:
                return
            is_abort = self.kills > 0 and self.chance.random() < 0.05
            self.kills -= is_abort
            how = self._abort(run, batch) if is_abort else self._commit(run, batch, messages)
            ended = self._await([Process(how, born=batch)])
            if ended is None:
                if self.chance.random() < 0.5:  # only the commit's process was killed: Spark asks to abort
                    self._await([Process(self._abort(run, batch), born=batch)])
                return
            if isinstance(ended[0].problem, LostTransactionError):
                raise ended[0].problem
            if ended[0].problem is not None or is_abort:
                return
            if self._is_killed():
                return
            self.finished = batch

    async def _commit(self, run: str, batch: int, messages: Sequence[Offered]) -> None:
        is_last = batch == len(self.rows) - 1
        ledger = MemoryLedger(self.broker)
        await commit_batch(ledger, IDS, run=run, batch=batch, offered=messages, is_last=is_last)
        if is_last:
            self.broker.close(run)

    async def _abort(self, run: str, batch: int) -> None:
        await deciding.abort_batch(MemoryLedger(self.broker), run=run, batch=batch)
        self.broker.close(run)

    def _tasks(self, run: str, batch: int) -> list[Offered] | None:
        """The transactions of the attempts that won, with the rows divided at random; None if the run was killed."""
        rows = list(self.rows[batch])
        self.chance.shuffle(rows)
        count = self.chance.randint(1, 3)
        first = [
            Process(self._attempt(run, batch, part, 0, rows[part::count]), born=batch)
            for part in range(count)
        ]
        second = [
            Process(self._attempt(run, batch, part, 1, rows[part::count]), born=batch)
            for part in range(count)
            if self.chance.random() < 0.3
        ]
        self.living += second  # speculative: the driver does not wait for them
        ended = self._await(first)
        if ended is None:
            if self.chance.random() < 0.5:  # only a task was killed: Spark asks to abort, and others live on
                self._await([Process(self._abort(run, batch), born=batch)])
            return None
        if any(each.result == "fenced" or each.problem for each in ended):
            return None
        return [each.result for each in ended if each.result is not None]

    async def _attempt(self, run: str, batch: int, part: int, attempt: int, rows: Sequence[Any]) -> Any:
        ledger = MemoryLedger(self.broker)
        if is_decided(await ledger.look_up(), batch):
            return None

        async def start() -> Offered:
            await _Turn()
            return self.broker.start(IDS.task(run=run, partition=part, attempt=attempt, batch=batch))

        mine = await deciding.begin_attempt(ledger, start, run=run)
        for row in rows:
            await _Turn()
            if not self.broker.write(mine, [row]):
                return "fenced"
        return mine

    def _await(self, processes: list[Process]) -> list[Process] | None:
        """Until all are done; None if the run is killed meanwhile: then some of them live on."""
        self.living += processes
        while not all(each.done for each in processes):
            if self._is_killed():
                for each in processes:
                    if self.chance.random() < 0.5:
                        each.kill()
                return None
            self._step_one_process()
        return processes

    def _is_killed(self) -> bool:
        if self.kills and self.chance.random() < 0.03:
            self.kills -= 1
            return True
        return False

    def _step_one_process(self) -> None:
        self.living = [each for each in self.living if not each.done]
        if self.kills and self.chance.random() < 0.01:
            self.kills -= 1
            self.broker.time_out(self.chance)
        if self.living:
            self.chance.choice(self.living).step()


@settings(max_examples=500)
@given(seed=st.integers(0, 2**32))
def test_every_row_is_committed_once_whichever_processes_are_killed(seed: int):
    story = Story(random.Random(seed), batches=3, kills=6)
    story.tell()
    assert story.is_exactly_once()


async def _see_nothing(self: MemoryLedger) -> None:
    await _Turn()


async def _write_anyway(self: MemoryLedger, token: int, decision: SinkDecision) -> None:
    await _Turn()
    self._offset = len(self._broker.decisions)
    self._broker.decisions.append(decision)


def _one_run_for_all(self: Ids, *, run: str, partition: int, attempt: int, batch: int) -> str:
    return f"{self.prefix}.{self.query}.run.{partition}.{attempt}.{batch % 2}"


async def _never_given_up(self: MemoryLedger, run: str) -> bool:
    await _Turn()
    return False


async def _look_and_then_start(
    ledger: MemoryLedger, start: Callable[[], Awaitable[Offered]], *, run: str
) -> Offered:
    if await ledger.is_given_up(run):
        raise GivenUpError
    return await start()


async def _shut_out_only_what_is_open(self: MemoryLedger, run: str) -> None:
    await self._take_over_tasks(run, lambda known: known.is_open)


async def _shut_out_what_is_committed_too(self: MemoryLedger, run: str) -> None:
    await self._take_over_tasks(run, lambda known: True)


async def _shut_out_and_then_give_up(ledger: MemoryLedger, *, run: str, batch: int) -> None:
    await ledger.take_over()
    finish = on_abort(await ledger.look_up(), run=run, batch=batch)
    if finish is not None:
        await deciding._carry_out(ledger, finish, finish.transactions, -1)
    await ledger.shut_out_tasks(run)
    await ledger.give_up(run)


async def _look_and_then_give_up(ledger: MemoryLedger, *, run: str, batch: int) -> None:
    await ledger.take_over()
    finish = on_abort(await ledger.look_up(), run=run, batch=batch)
    await ledger.give_up(run)
    if finish is not None:
        await deciding._carry_out(ledger, finish, finish.transactions, -1)
    await ledger.shut_out_tasks(run)


@pytest.mark.parametrize(
    ("where", "fault"),
    [
        pytest.param((MemoryLedger, "look_up"), _see_nothing, id="nobody looks at earlier decisions"),
        pytest.param((MemoryLedger, "write"), _write_anyway, id="nobody is shut out"),
        pytest.param((Ids, "task"), _one_run_for_all, id="runs share transactional ids"),
        pytest.param((deciding, "on_abort"), lambda *_, **__: None, id="what is decided is aborted"),
        pytest.param((deciding, "no_longer_open"), lambda *_: [], id="what was aborted is decided"),
        pytest.param((MemoryLedger, "is_given_up"), _never_given_up, id="a run that was given up goes on"),
        pytest.param(
            (deciding, "begin_attempt"), _look_and_then_start, id="a task looks before it has started its id"
        ),
        pytest.param(
            (MemoryLedger, "shut_out_tasks"),
            _shut_out_only_what_is_open,
            id="a task that has written nothing yet is not shut out",
        ),
        pytest.param(
            (MemoryLedger, "shut_out_tasks"),
            _shut_out_what_is_committed_too,
            id="what was committed is taken over, and cannot be ended again",
        ),
        pytest.param(
            (deciding, "abort_batch"),
            _shut_out_and_then_give_up,
            id="tasks are shut out before the mark is set",
        ),
        pytest.param(
            (deciding, "abort_batch"),
            _look_and_then_give_up,
            id="the mark is set after the decisions are looked at",
        ),
    ],
)
def test_each_rule_is_needed(where: tuple[Any, str], fault: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(*where, fault)

    def goes_wrong(seed: int) -> bool:
        story = Story(random.Random(seed), batches=3, kills=6)
        try:
            story.tell()
        except (LostTransactionError, AssertionError):
            return True
        return not story.is_exactly_once()

    assert any(goes_wrong(seed) for seed in range(2000))


def test_a_timeout_before_the_decision_fails_the_batch_and_after_it_is_reported_as_lost_rows():
    broker = Broker()
    first = broker.start(offered(0).transactional_id)
    second = broker.start(offered(1).transactional_id)
    broker.write(first, ["a"])
    broker.write(second, ["b"])
    broker.end(second, committed=False)  # as a timeout does it
    process = Process(
        commit_batch(MemoryLedger(broker), IDS, run="run", batch=1, offered=[first, second]), born=1
    )
    while not process.done:
        process.step()
    assert isinstance(process.problem, TransactionGoneError)
    assert second.transactional_id in str(process.problem)
    assert broker.decisions == []
    assert not any(each.is_open for each in broker.transactions.values())

    again = broker.start(offered(0).transactional_id)
    broker.write(again, ["a"])
    process = Process(commit_batch(MemoryLedger(broker), IDS, run="run", batch=1, offered=[again]), born=1)
    while not broker.decisions:
        process.step()
    process.kill()
    broker.end(again, committed=False)
    for skipped, problem in ((-1, LostTransactionError), (1, type(None))):
        replay = commit_batch(
            MemoryLedger(broker), IDS, run="run2", batch=1, offered=[], skip_lost_batch=skipped
        )
        process = Process(replay, born=1)
        while not process.done:
            process.step()
        assert isinstance(process.problem, problem)
    assert broker.carried_out == len(broker.decisions)
