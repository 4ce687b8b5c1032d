"""asyncio on virtual time: timers, tasks, streams, processes of their own, and what is said when all is stuck."""

import asyncio
import gc
import time
import warnings
from collections.abc import Iterator

import pytest

from penstock.sim import DeadlockError, OutOfTimeError, Simulation


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(1) as simulation:
        yield simulation


def test_a_day_passes_in_no_time(simulation: Simulation) -> None:
    async def story() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert simulation.run(story()) == pytest.approx(86_400, abs=0.001)
    assert time.monotonic() - began < 60


def test_timeouts_are_virtual_too(simulation: Simulation) -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await loop.create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 300)
        return loop.time()

    assert simulation.run(story()) == pytest.approx(600, abs=0.001)


def test_queues_locks_and_groups_work_as_anywhere(simulation: Simulation) -> None:
    async def story() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        lock = asyncio.Lock()

        async def put(number: int) -> None:
            async with lock:
                await queue.put(number)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(put(number))
            return [await queue.get() for _ in range(5)]

    assert simulation.run(story()) == [0, 1, 2, 3, 4]


def test_nothing_to_run_and_no_timer_is_a_deadlock_that_says_who_waits_for_what(
    simulation: Simulation,
) -> None:
    async def wait_for_godot() -> None:
        await asyncio.get_running_loop().create_future()

    async def story() -> None:
        await simulation.loop.spawn(simulation.new_process("vladimir"), wait_for_godot())

    with pytest.raises(DeadlockError) as caught:
        simulation.run(story())
    assert "vladimir: " in str(caught.value)
    assert "wait_for_godot line" in str(caught.value)
    assert "home: " in str(caught.value)


def test_a_run_longer_than_its_limit_fails_and_names_the_waiting_task(simulation: Simulation) -> None:
    with pytest.raises(OutOfTimeError, match="sleep"):
        simulation.run(asyncio.sleep(100), seconds_max=10)


def test_what_a_process_starts_is_its_own(simulation: Simulation) -> None:
    seen: list[str] = []
    process = simulation.new_process("child")

    def look() -> None:
        seen.append(simulation.loop.process().name)

    async def grandchild() -> None:
        look()

    async def child() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(look)
        loop.call_later(1, look)
        future = loop.create_future()
        future.add_done_callback(lambda _: look())
        future.set_result(None)
        await asyncio.gather(grandchild(), asyncio.sleep(2))

    async def story() -> None:
        await simulation.loop.spawn(process, child())
        look()

    simulation.run(story())
    assert seen == ["child"] * 4 + ["home"]


def test_a_future_set_from_outside_wakes_its_waiter_in_the_waiter_s_own_process(
    simulation: Simulation,
) -> None:
    process = simulation.new_process("waiter")

    async def story() -> str:
        future = simulation.loop.create_future()

        async def wait() -> str:
            await future
            return simulation.loop.process().name

        task = simulation.loop.spawn(process, wait())
        await asyncio.sleep(1)
        future.set_result(None)
        return await task

    assert simulation.run(story()) == "waiter"


def test_each_process_has_its_own_clock(simulation: Simulation) -> None:
    async def times() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(10)
        return loop.time() - began, simulation.kernel.now

    hasty = simulation.new_process("hasty")
    hasty.clock.skew(2.0)
    passed, truth = simulation.run(_as(simulation, hasty, times()))
    assert passed == pytest.approx(10, abs=0.001)
    assert truth == pytest.approx(5, abs=0.001)


async def _as(simulation, process, coroutine):
    return await simulation.loop.spawn(process, coroutine)


def test_a_killed_process_is_left_where_it_is(simulation: Simulation) -> None:
    done: list[str] = []
    process = simulation.new_process("victim")

    async def live() -> None:
        try:
            await asyncio.sleep(1)
            done.append("woke up")
        finally:
            done.append("cleaned up")

    async def story() -> None:
        simulation.loop.spawn(process, live())
        await asyncio.sleep(0.5)
        simulation.loop.kill(process)
        await asyncio.sleep(10)
        assert done == []

    simulation.run(story())


def test_what_still_waits_at_the_end_is_put_away_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def inner() -> None: ...

    async def stubborn(never_awaited) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            await never_awaited

    async def unstarted(never_awaited) -> None:
        await never_awaited

    def live_and_end() -> None:
        with Simulation(1) as simulation:

            async def story() -> None:
                victim = simulation.new_process("victim")
                simulation.loop.spawn(simulation.loop.home, stubborn(inner()))
                simulation.loop.spawn(victim, stubborn(inner()))
                await asyncio.sleep(1)
                simulation.loop.kill(victim)
                simulation.loop.spawn(victim, unstarted(inner()))
                simulation.loop.spawn(simulation.new_process("late"), unstarted(inner()))

            simulation.run(story())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live_and_end()
        gc.collect()
    assert caplog.records == []


def test_an_exception_of_a_task_that_is_not_awaited_is_kept_as_a_problem(simulation: Simulation) -> None:
    async def fall() -> None:
        raise RuntimeError("ouch")

    async def story() -> None:
        simulation.loop.spawn(simulation.loop.home, fall())
        await asyncio.sleep(1)

    simulation.run(story())
    (problem,) = simulation.kernel.problems
    assert str(problem.error) == "ouch"


def test_a_handler_of_the_program_s_own_gets_exceptions_instead(simulation: Simulation) -> None:
    heard: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: heard.append(context["message"]))
        loop.call_exception_handler({"message": "ouch"})

    simulation.run(story())
    assert heard == ["ouch"]
    assert simulation.kernel.problems == []


def test_streams_work_between_hosts(simulation: Simulation) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    async def serve() -> None:
        await asyncio.start_server(echo, "0.0.0.0", 7)

    async def ask() -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_connection("echo-host", 7)
        writer.write(b"hello\n")
        answer = await reader.readline()
        writer.write_eof()
        rest = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer, rest

    async def story() -> tuple[bytes, bytes]:
        await _as(simulation, simulation.new_process("echo-host"), serve())
        return await _as(simulation, simulation.new_process("asker"), ask())

    assert simulation.run(story()) == (b"HELLO\n", b"")


def test_an_async_generator_that_is_left_is_closed_by_its_own_process(simulation: Simulation) -> None:
    closed_by: list[str] = []

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed_by.append(simulation.loop.process().name)

    async def leave() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(1)

    simulation.run(_as(simulation, simulation.new_process("leaver"), leave()))
    assert closed_by == ["leaver"]


def test_sets_of_tasks_have_the_same_order_in_every_run() -> None:
    def order() -> list[str]:
        with Simulation(1) as simulation:

            async def story() -> list[str]:
                tasks = {asyncio.ensure_future(asyncio.sleep(0, str(number))) for number in range(50)}
                done, _ = await asyncio.wait(tasks)
                return [task.result() for task in done]

            return simulation.run(story())

    first = order()
    ballast = [object() for _ in range(1000)]
    assert order() == first
    del ballast


def test_the_collector_rests_while_the_simulation_runs(simulation: Simulation) -> None:
    async def story() -> bool:
        return gc.isenabled()

    assert not simulation.run(story())
    assert gc.isenabled()


@pytest.mark.parametrize("option", ["ssl", "sock"])
def test_what_is_not_simulated_is_refused(simulation: Simulation, option: str) -> None:
    async def story() -> None:
        await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, "localhost", 1, **{option: object()}
        )

    with pytest.raises(NotImplementedError, match=option):
        simulation.run(story())
