"""Background tasks: they end with their owner, and no failure is lost."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable

import pytest

from penstock.world.real_loop import RealLoop
from penstock.world.tasks import Tasks, cancel_and_wait, repeat

log = logging.getLogger("penstock.test")


def run_story(story: Callable[[RealLoop], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(RealLoop())

    asyncio.run(main())


async def forever() -> None:
    await asyncio.Event().wait()


def test_stop_returns_when_all_tasks_have_cleaned_up() -> None:
    cleaned = []

    async def work(number: int) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            cleaned.append(number)

    async def story(loop: RealLoop) -> None:
        tasks = Tasks(loop)
        for number in (1, 2):
            tasks.start(f"work {number}", work(number))
        await asyncio.sleep(0)
        await tasks.stop()
        assert sorted(cleaned) == [1, 2]
        assert len(tasks) == 0

    run_story(story)


def test_stop_also_ends_tasks_that_are_started_while_it_waits() -> None:
    async def story(loop: RealLoop) -> None:
        tasks = Tasks(loop)

        async def starts_another() -> None:
            try:
                await forever()
            finally:
                tasks.start("another", forever())

        tasks.start("first", starts_another())
        await asyncio.sleep(0)
        await tasks.stop()
        assert len(tasks) == 0

    run_story(story)


def test_an_unexpected_failure_is_logged_with_the_name_of_the_task(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ValueError("a bug")

    async def story(loop: RealLoop) -> None:
        tasks = Tasks(loop)
        tasks.start("compaction", fails())
        await tasks.finish()
        assert len(tasks) == 0

    run_story(story)
    (record,) = caplog.records
    assert record.getMessage() == "background task compaction failed: a bug"
    assert record.exc_info is not None


def test_a_failure_goes_to_the_owner_that_asks_for_it() -> None:
    async def fails() -> None:
        raise ValueError("a bug")

    failures = []

    async def story(loop: RealLoop) -> None:
        tasks = Tasks(loop, on_failure=lambda name, error: failures.append((name, str(error))))
        tasks.start("compaction", fails())
        await tasks.finish()

    run_story(story)
    assert failures == [("compaction", "a bug")]


def test_a_failure_while_a_task_is_being_stopped_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails_at_its_end() -> None:
        try:
            await forever()
        finally:
            raise ValueError("a bug")

    async def story(loop: RealLoop) -> None:
        tasks = Tasks(loop)
        tasks.start("compaction", fails_at_its_end())
        await asyncio.sleep(0)
        await tasks.stop()

    run_story(story)
    assert [record.getMessage() for record in caplog.records] == ["background task compaction failed: a bug"]


def test_a_cancelled_task_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def story(loop: RealLoop) -> None:
        tasks = Tasks(loop)
        task = tasks.start("waiting", forever())
        assert tasks.is_running("waiting")
        await cancel_and_wait(task)
        assert not tasks.is_running("waiting")
        await tasks.finish()

    run_story(story)
    assert not caplog.records


class Work:
    """Work with the given outcomes, one per call, that then waits for ever."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self._outcomes = list(outcomes)
        self.is_over = asyncio.Event()

    async def __call__(self) -> None:
        if not self._outcomes:
            self.is_over.set()
            await forever()
        outcome = self._outcomes.pop(0)
        if outcome is not None:
            raise outcome


def lines_of(caplog: pytest.LogCaptureFixture, *outcomes: Exception | None, **how: object) -> list[str]:
    async def story(loop: RealLoop) -> None:
        work = Work(*outcomes)
        tasks = Tasks(loop)
        tasks.start("flush", repeat(loop, "flush", work, log=log, **how))  # type: ignore[arg-type]
        await work.is_over.wait()
        await tasks.stop()

    run_story(story)
    return [record.getMessage() for record in caplog.records]


def test_work_that_fails_is_repeated_after_its_interval(caplog: pytest.LogCaptureFixture) -> None:
    lines = lines_of(caplog, ValueError("a bug"), None, interval_s=lambda: 0.001)
    assert lines == ["background task flush failed: a bug; retrying in 0.001 s"]


def test_work_without_an_interval_is_repeated_after_the_retry_time(caplog: pytest.LogCaptureFixture) -> None:
    lines = lines_of(caplog, None, ValueError("a bug"), None, retry_s=0.002)
    assert lines == ["background task flush failed: a bug; retrying in 0.002 s"]


def test_a_full_disk_is_logged_once_until_the_work_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    full = OSError(errno.ENOSPC, "no room")
    lines = lines_of(caplog, full, full, None, full, retry_s=0)
    assert lines == ["background task flush failed: [Errno 28] no room; retrying in 0 s"] * 2


def test_errors_that_may_last_are_logged_once_too(caplog: pytest.LogCaptureFixture) -> None:
    busy = ConnectionError("busy")
    lines = lines_of(caplog, busy, busy, None, retry_s=0, passing=ConnectionError)
    assert lines == ["background task flush failed: busy; retrying in 0 s"]
