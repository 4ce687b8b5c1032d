"""Work in threads: answers, order, limits, giving up and closing."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.world.real_entropy import RealEntropy
from penstock.world.real_loop import run
from penstock.world.real_work import RealWork


def with_work(story: Callable[[RealWork], Coroutine[Any, Any, None]], **options: int) -> None:
    async def main() -> None:
        work = RealWork(**options)
        try:
            await asyncio.wait_for(story(work), timeout=20)
        finally:
            work.close()

    run(main)


def test_a_function_runs_off_the_loop_and_its_result_comes_back() -> None:
    async def story(work: RealWork) -> None:
        thread = await work.run(threading.current_thread)
        assert thread is not threading.current_thread()
        assert thread.name.startswith("penstock-work")

    with_work(story)


def test_an_exception_comes_back_as_itself() -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    async def story(work: RealWork) -> None:
        with pytest.raises(OSError, match="Input/output error"):
            await work.run(fail)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await work.run(lambda: next(iter(())))
        assert await work.run(lambda: "still there") == "still there"

    with_work(story, threads=1)


def test_functions_run_side_by_side_up_to_the_number_of_threads() -> None:
    async def story(work: RealWork) -> None:
        meeting = threading.Barrier(3)
        await asyncio.gather(*(work.run(lambda: meeting.wait(timeout=10)) for _ in range(3)))

    with_work(story, threads=3)


def test_what_does_not_fit_waits_on_the_loop_in_order() -> None:
    async def story(work: RealWork) -> None:
        gate = threading.Event()
        order: list[int] = []
        blocked = work.run(gate.wait)
        others = [work.run(lambda number=number: order.append(number)) for number in range(50)]
        assert work.waiting == 48
        gate.set()
        await asyncio.gather(blocked, *others)
        assert order == list(range(50))
        assert work.waiting == 0

    with_work(story, threads=1, queued_max=2)


def test_answers_that_come_together_make_room_together() -> None:
    async def story(work: RealWork) -> None:
        done = threading.Semaphore(0)
        for _ in range(10):
            futures = [work.run(done.release) for _ in range(3)]
            assert work.waiting == 0
            for _ in futures:
                done.acquire()  # the loop stands still meanwhile: nothing is delivered one by one
            await asyncio.gather(*futures)

    with_work(story, threads=2, queued_max=1)


def test_who_gives_up_in_the_queue_is_never_run() -> None:
    async def story(work: RealWork) -> None:
        gate = threading.Event()
        ran: list[str] = []
        blocked = work.run(gate.wait)
        queued, waiting, last = (work.run(lambda name=name: ran.append(name)) for name in ("a", "b", "c"))
        queued.cancel()
        waiting.cancel()
        gate.set()
        await asyncio.gather(blocked, last)
        assert ran == ["c"]

    with_work(story, threads=1, queued_max=1)


def test_who_gives_up_on_what_runs_does_not_disturb_the_rest() -> None:
    async def story(work: RealWork) -> None:
        gate, started = threading.Event(), threading.Event()

        def block() -> None:
            started.set()
            gate.wait()

        blocked = work.run(block)
        while not started.is_set():
            await asyncio.sleep(0)
        blocked.cancel()
        gate.set()
        assert await work.run(lambda: 1) == 1

    with_work(story, threads=1)


def test_closing_waits_for_what_runs_and_cancels_the_rest() -> None:
    async def main() -> None:
        work = RealWork(threads=1, queued_max=1)
        gate, started = threading.Event(), threading.Event()

        def block() -> str:
            started.set()
            gate.wait()
            return "done"

        running = work.run(block)
        while not started.is_set():
            await asyncio.sleep(0)
        rest = [work.run(lambda: "never") for _ in range(3)]
        threading.Timer(0.01, gate.set).start()
        work.close()
        work.close()
        assert await running == "done"
        for future in rest:
            with pytest.raises(asyncio.CancelledError):
                await future
        with pytest.raises(RuntimeError, match="closed"):
            work.run(lambda: 1)

    run(main)


def test_thousands_of_small_functions_all_come_back() -> None:
    async def story(work: RealWork) -> None:
        results = await asyncio.gather(*(work.run(lambda number=number: number) for number in range(5000)))
        assert results == list(range(5000))

    with_work(story, threads=4, queued_max=16)


def test_entropy_is_different_every_time_and_within_its_limit() -> None:
    entropy = RealEntropy()
    assert len(entropy.random_bytes(16)) == 16
    assert entropy.random_bytes(16) != entropy.random_bytes(16)
    assert {entropy.random_below(3) for _ in range(200)} == {0, 1, 2}
